"""The words of `clauses`: who does what, when, where and with whom, German|English.

An indented line goes on with the one before it.
"""

from pathlib import Path


# German, English, and the person that German verbs agree with.
SUBJECTS = """
ich|I|1s
du|you|2s
er|he|3s
sie|she|3s
wir|we|1p
ihr|you|2p
sie|they|3p
mein Bruder|my brother|3s
meine Schwester|my sister|3s
meine Mutter|my mother|3s
mein Vater|my father|3s
meine Eltern|my parents|3p
die Kinder|the children|3p
unsere Nachbarn|our neighbors|3p
mein Freund|my friend|3s
meine Freundin|my girlfriend|3s
meine Frau|my wife|3s
ihr Mann|her husband|3s
die Lehrerin|the teacher|3s
der Arzt|the doctor|3s
der Chef|the boss|3s
mein Kollege|my colleague|3s
die Polizei|the police|3s
die Regierung|the government|3s
das Mädchen|the girl|3s
der alte Mann|the old man|3s
"""
# German by person (1s 2s 3s 1p 2p 3p) |
# English for he and she | for the others | what negates and
# asks, for he and she | for the others | what stays with the verb then | past or future.
MODALS = """
will willst will wollen wollt wollen|wants to|want to|does|do|want to|future
muss musst muss müssen müsst müssen|has to|have to|does|do|have to|future
kann kannst kann können könnt können|can|can|can|can||future
soll sollst soll sollen sollt sollen|should|should|should|should||future
möchte möchtest möchte möchten möchtet möchten|
    would like to|would like to|would|would|like to|future
werde wirst wird werden werdet werden|will|will|will|will||future
würde würdest würde würden würdet würden|would|would|would|would||future
wollte wolltest wollte wollten wolltet wollten|wanted to|wanted to|did|did|want to|past
konnte konntest konnte konnten konntet konnten|could|could|could|could||past
musste musstest musste mussten musstet mussten|had to|had to|did|did|have to|past
"""
NOT = {
    "did": "didn't",
    "does": "doesn't",
    "do": "don't",
    "can": "can't",
    "could": "couldn't",
    "should": "shouldn't",
    "will": "won't",
    "would": "wouldn't",
}
HABEN = "habe hast hat haben habt haben"
SEIN = "bin bist ist sind seid sind"
# Infinitive, with zu, participle, haben or sein |
# base, past | objects; an object may be missing.
VERBS = Path(__file__).with_name("clause_verbs.txt").read_text(encoding="utf-8")
# An adverb that can stand first in a German sentence; the last field: past, future or any.
WHEN = """
gestern|yesterday|past
gestern Abend|last night|past
vorgestern|the day before yesterday|past
heute|today|any
heute Morgen|this morning|any
heute Abend|tonight|future
morgen|tomorrow|future
morgen früh|tomorrow morning|future
übermorgen|the day after tomorrow|future
am {day}|on {day}|any
letzte Woche|last week|past
letztes Jahr|last year|past
nächste Woche|next week|future
nächstes Jahr|next year|future
im {month}|in {month}|any
vor {small} Tagen|{small} days ago|past
vor {small} Jahren|{small} years ago|past
vor einer Stunde|an hour ago|past
in {small} Stunden|in {small} hours|future
um {clock} Uhr|at {clock} o'clock|any
um halb {after}|at half past {clock}|any
um Viertel nach {clock}|at a quarter past {clock}|any
um Viertel vor {clock}|at a quarter to {clock}|any
um {hour}:{minute} Uhr|at {hour}:{minute}|any
im Jahr {year}|in {year}|past
am Wochenende|on the weekend|any
am Nachmittag|in the afternoon|any
nach der Arbeit|after work|any
vor dem Essen|before the meal|any
in einer Woche|in a week|future
in {small} Minuten|in {small} minutes|future
jetzt|now|future
bald|soon|future
schließlich|finally|past
"""
WITH = """
mit meinem Bruder|with my brother
mit meiner Schwester|with my sister
mit meinen Eltern|with my parents
mit meinen Freunden|with my friends
mit seiner Frau|with his wife
mit ihrem Mann|with her husband
mit den Kindern|with the children
mit {name}|with {name}
mit Frau {surname}|with Ms. {surname}
mit Herrn {surname}|with Mr. {surname}
ohne mich|without me
für meine Mutter|for my mother
für die Kinder|for the children
wegen des Regens|because of the rain
trotz des schlechten Wetters|despite the bad weather
"""
WHERE = """
im Garten|in the garden
im Park|in the park
in der Stadt|in town
in der Schule|at school
im Büro|at the office
zu Hause|at home
im Supermarkt|at the supermarket
auf dem Markt|at the market
am Bahnhof|at the train station
in {city}|in {city}
in einem kleinen Dorf|in a small village
in der Küche|in the kitchen
bei meiner Tante|at my aunt's house
im Urlaub|on vacation
im Wald|in the forest
in der Bibliothek|in the library
im Krankenhaus|in the hospital
im Restaurant|at the restaurant
am See|at the lake
"""
# What asks for more than yes or no.
ASKING = """
Warum|Why
Wann|When
Wie oft|How often
"""
# What a subordinate clause that comes before the main one begins with.
FIRST = ("weil", "obwohl", "wenn", "sobald")
# What may come before a clause whose verb is last, and with which word.
OPENINGS = """
Ich glaube, dass|I think that
Ich weiß, dass|I know that
Wir hoffen, dass|We hope that
Er sagt, dass|He says that
Sie hat gesagt, dass|She said that
Es ist schade, dass|It's a pity that
Es ist wichtig, dass|It's important that
Ich habe gehört, dass|I heard that
Weißt du, ob|Do you know if
Ich frage mich, ob|I wonder if
Können Sie mir sagen, warum|Can you tell me why
Ich verstehe nicht, warum|I don't understand why
Niemand weiß, wann|Nobody knows when
"""
LINKS = """
weil|because
obwohl|although
wenn|when
bevor|before
"""
REASONS = """
weil es regnet|because it's raining
weil es zu teuer war|because it was too expensive
weil ich krank bin|because I'm sick
weil sie keine Zeit hatte|because she didn't have time
weil der Zug Verspätung hatte|because the train was late
weil meine Mutter Geburtstag hat|because it's my mother's birthday
weil meine Tante Geburtstag hat|because it's my aunt's birthday
weil mein Vater Geburtstag hat|because it's my father's birthday
weil wir dort Freunde haben|because we have friends there
weil ich früh aufstehen muss|because I have to get up early
weil mein Handy kaputt ist|because my cell phone is broken
weil er sehr nett ist|because he's very nice
weil wir keine Milch mehr haben|because we don't have any more milk
obwohl es sehr kalt war|although it was very cold
obwohl ich müde bin|although I'm tired
obwohl sie kein Geld hatten|although they didn't have any money
wenn das Wetter schön ist|if the weather is nice
wenn du Zeit hast|if you have time
sobald wir zu Hause sind|as soon as we are at home
aber niemand hat mir geholfen|but nobody helped me
aber ich habe es nicht verstanden|but I didn't understand it
aber es hat nicht funktioniert|but it didn't work
und dann sind wir nach Hause gegangen|and then we went home
und ich war sehr froh|and I was very happy
aber wir hatten viel Spaß|but we had a lot of fun
aber das Wasser war zu kalt|but the water was too cold
damit alles klappt|so that everything works out
bis der Arzt kommt|until the doctor comes
"""
