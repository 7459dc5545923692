"""How commands end."""

import pytest

from training.checked import InputError
from training.command import exit_code


def failing(error):
    def work():
        raise error

    return work


def test_work_that_is_done_is_zero_and_says_nothing(capsys):
    assert exit_code(lambda: "whatever it returns") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error", [InputError("no such set"), ValueError("a bad value"), FileNotFoundError("gone")]
)
def test_what_the_user_can_mend_is_one_line(error, capsys):
    assert exit_code(failing(error)) == 2
    assert capsys.readouterr().err == f"error: {error}\n"


def test_a_command_may_take_less_for_the_users_fault():
    """A ValueError out of the depths of a training is a bug, and wants its traceback."""
    with pytest.raises(ValueError, match="a bug"):
        exit_code(failing(ValueError("a bug")), mendable=(InputError,))


def test_an_interruption_says_how_to_go_on(capsys):
    assert exit_code(failing(KeyboardInterrupt()), interrupted="the same command goes on") == 130
    assert capsys.readouterr().err == "interrupted: the same command goes on\n"
