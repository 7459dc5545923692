"""Sets and checkpoints for others: the hub, and the cards that say what a model is."""
