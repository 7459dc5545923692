"""The words of `clauses`: who does what, when, where and with whom, German|English.

An indented line goes on with the one before it.
"""

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
VERBS = """
bauen zu_bauen gebaut haben|build built|
    ein großes Haus=a big house;eine Mauer=a wall;ein Boot=a boat;eine Brücke=a bridge
kaufen zu_kaufen gekauft haben|buy bought|
    ein neues Auto=a new car;frisches Brot=fresh bread;zwei Karten=two tickets;
    ein Geschenk=a present;Milch und Eier=milk and eggs
verkaufen zu_verkaufen verkauft haben|sell sold|
    das alte Fahrrad=the old bicycle;das Haus=the house;das Auto=the car;
    alle Bücher=all the books
finden zu_finden gefunden haben|find found|
    den Schlüssel=the key;eine Wohnung=an apartment;eine Lösung=a solution;
    einen guten Arzt=a good doctor
verlieren zu_verlieren verloren haben|lose lost|
    den Schlüssel=the key;viel Geld=a lot of money;das Spiel=the game;die Geduld=patience
suchen zu_suchen gesucht haben|look_for looked_for|
    den Hund=the dog;eine neue Arbeit=a new job;die Brille=the glasses
lesen zu_lesen gelesen haben|read read|
    das Buch=the book;einen langen Brief=a long letter;die Zeitung=the newspaper;
    den Bericht=the report
schreiben zu_schreiben geschrieben haben|write wrote|
    einen Brief=a letter;eine E-Mail=an email;ein Buch=a book;einen Artikel=an article
kochen zu_kochen gekocht haben|cook cooked|das Abendessen=dinner;eine Suppe=a soup;Nudeln=pasta
essen zu_essen gegessen haben|eat ate|
    einen Apfel=an apple;Pizza=pizza;zu viel Kuchen=too much cake;zu Mittag=lunch
trinken zu_trinken getrunken haben|drink drank|
    ein Bier=a beer;eine Tasse Kaffee=a cup of coffee;zu viel Wein=too much wine
sehen zu_sehen gesehen haben|see saw|
    einen Film=a movie;den Unfall=the accident;den Präsidenten=the president;
    deine Schwester=your sister
hören zu_hören gehört haben|hear heard|die Nachricht=the news;Musik=music;ein Geräusch=a noise
vergessen zu_vergessen vergessen haben|forget forgot|
    den Termin=the appointment;den Regenschirm=the umbrella;das Passwort=the password
besuchen zu_besuchen besucht haben|visit visited|
    die Großmutter=grandmother;das Museum=the museum;alte Freunde=old friends
treffen zu_treffen getroffen haben|meet met|
    einen alten Freund=an old friend;den Direktor=the director;den Bürgermeister=the mayor
reparieren zu_reparieren repariert haben|repair repaired|
    das Auto=the car;das Fahrrad=the bicycle;das Dach=the roof
bezahlen zu_bezahlen bezahlt haben|pay paid|
    die Rechnung=the bill;die Miete=the rent;{large} Euro={large} euros
lernen zu_lernen gelernt haben|learn learned|
    Deutsch=German;Englisch=English;das Gedicht=the poem
verstehen zu_verstehen verstanden haben|understand understood|
    die Frage=the question;den Text=the text;das Problem=the problem
beantworten zu_beantworten beantwortet haben|answer answered|
    die Frage=the question;alle Briefe=all the letters
öffnen zu_öffnen geöffnet haben|open opened|
    das Fenster=the window;die Tür=the door;den Brief=the letter
schließen zu_schließen geschlossen haben|close closed|
    das Fenster=the window;die Tür=the door;das Geschäft=the store
waschen zu_waschen gewaschen haben|wash washed|
    das Auto=the car;die Hände=hands;die Wäsche=the laundry
putzen zu_putzen geputzt haben|clean cleaned|
    die Küche=the kitchen;das Bad=the bathroom;die Fenster=the windows
spielen zu_spielen gespielt haben|play played|
    Fußball=soccer;Klavier=the piano;Schach=chess;Karten=cards
bekommen zu_bekommen bekommen haben|get got|
    einen Brief=a letter;eine Antwort=an answer;ein Geschenk=a present
brauchen zu_brauchen gebraucht haben|need needed|
    Hilfe=help;mehr Zeit=more time;{number} Euro={number} euros
machen zu_machen gemacht haben|make made|
    einen Fehler=a mistake;einen Kuchen=a cake;einen Vorschlag=a suggestion
erklären zu_erklären erklärt haben|explain explained|
    das Problem=the problem;die Regeln=the rules;die Situation=the situation
ändern zu_ändern geändert haben|change changed|
    den Plan=the plan;das Gesetz=the law;die Meinung=opinion
unterschreiben zu_unterschreiben unterschrieben haben|sign signed|
    den Vertrag=the contract;das Formular=the form
einladen einzuladen eingeladen haben|invite invited|
    alle Freunde=all the friends;die ganze Familie=the whole family;die Nachbarn=the neighbors
anrufen anzurufen angerufen haben|call called|
    den Arzt=the doctor;die Polizei=the police;die Mutter=mother
abholen abzuholen abgeholt haben|pick_up picked_up|
    die Kinder=the children;das Paket=the package;die Gäste=the guests
aufräumen aufzuräumen aufgeräumt haben|tidy_up tidied_up|
    das Zimmer=the room;die Küche=the kitchen
mitbringen mitzubringen mitgebracht haben|bring brought|
    einen Kuchen=a cake;eine Flasche Wein=a bottle of wine;gute Nachrichten=good news
vorbereiten vorzubereiten vorbereitet haben|prepare prepared|
    das Essen=the meal;die Sitzung=the meeting;eine Rede=a speech
sammeln zu_sammeln gesammelt haben|collect collected|
    Pilze=mushrooms;Briefmarken=stamps;Holz=wood;alte Münzen=old coins
pflücken zu_pflücken gepflückt haben|pick picked|
    Äpfel=apples;Blumen=flowers;Kirschen=cherries;Erdbeeren=strawberries
pflanzen zu_pflanzen gepflanzt haben|plant planted|
    einen Baum=a tree;Blumen=flowers;Tomaten=tomatoes
backen zu_backen gebacken haben|bake baked|
    einen Kuchen=a cake;Brot=bread;einen Apfelkuchen=an apple pie
bestellen zu_bestellen bestellt haben|order ordered|
    eine Pizza=a pizza;einen Salat=a salad;ein Glas Wasser=a glass of water;
    ein neues Handy=a new cell phone
probieren zu_probieren probiert haben|try tried|
    den Käse=the cheese;die Suppe=the soup;das Eis=the ice cream
verpassen zu_verpassen verpasst haben|miss missed|
    den Zug=the train;den Bus=the bus;das Flugzeug=the plane;die letzte Bahn=the last train
nehmen zu_nehmen genommen haben|take took|
    den Zug nach {city}=the train to {city};ein Taxi=a taxi;den nächsten Bus=the next bus;
    die Medizin=the medicine
schicken zu_schicken geschickt haben|send sent|
    ein Paket=a package;eine Nachricht=a message;die Unterlagen=the documents
zeigen zu_zeigen gezeigt haben|show showed|
    die Fotos=the photos;das neue Haus=the new house;den Weg=the way
feiern zu_feiern gefeiert haben|celebrate celebrated|
    Geburtstag=a birthday;Weihnachten=Christmas;die Hochzeit=the wedding
mieten zu_mieten gemietet haben|rent rented|
    ein Auto=a car;eine Wohnung=an apartment;ein Zimmer=a room
füttern zu_füttern gefüttert haben|feed fed|
    die Katze=the cat;die Hühner=the chickens;das Pferd=the horse
malen zu_malen gemalt haben|paint painted|
    ein Bild=a picture;die Wand=the wall;eine Landschaft=a landscape
tragen zu_tragen getragen haben|carry carried|
    den Koffer=the suitcase;die schwere Tasche=the heavy bag;die Kiste=the box
holen zu_holen geholt haben|get got|
    Wasser=water;den Arzt=the doctor;die Schlüssel=the keys
wählen zu_wählen gewählt haben|choose chose|
    den Präsidenten=the president;die falsche Antwort=the wrong answer
diskutieren zu_diskutieren diskutiert haben|discuss discussed|
    den Vorschlag=the proposal;die Pläne=the plans;das Ergebnis=the result
gewinnen zu_gewinnen gewonnen haben|win won|
    das Spiel=the game;einen Preis=a prize;die Wahl=the election
anziehen anzuziehen angezogen haben|put_on put_on|
    eine warme Jacke=a warm jacket;den Mantel=the coat;neue Schuhe=new shoes
ausmachen auszumachen ausgemacht haben|turn_off turned_off|
    das Licht=the light;den Fernseher=the television;das Radio=the radio
absagen abzusagen abgesagt haben|cancel canceled|
    das Treffen=the meeting;die Reise=the trip;das Konzert=the concert
wegwerfen wegzuwerfen weggeworfen haben|throw_away threw_away|
    den Müll=the garbage;die alten Schuhe=the old shoes;die Zeitung=the newspaper
arbeiten zu_arbeiten gearbeitet haben|work worked|
schwimmen zu_schwimmen geschwommen sein|swim swam|im See=in the lake;im Meer=in the sea
laufen zu_laufen gelaufen sein|run ran|
    durch den Park=through the park;zum Bahnhof=to the train station
umziehen umzuziehen umgezogen sein|move moved|nach {city}=to {city};nach {country}=to {country}
wandern zu_wandern gewandert sein|hike hiked|
    in den Bergen=in the mountains;durch den Wald=through the forest
schlafen zu_schlafen geschlafen haben|sleep slept|
warten zu_warten gewartet haben|wait waited|
tanzen zu_tanzen getanzt haben|dance danced|
gehen zu_gehen gegangen sein|go went|
    nach Hause=home;ins Kino=to the movies;zum Arzt=to the doctor;in die Schule=to school;
    ins Bett=to bed
fahren zu_fahren gefahren sein|go went|
    nach {city}=to {city};ans Meer=to the sea;in die Stadt=to town;
    zum Bahnhof=to the train station;mit dem Zug nach {city}=to {city} by train;
    mit dem Auto nach {city}=to {city} by car;mit dem Bus zur Schule=to school by bus;
    mit dem Fahrrad zur Arbeit=to work by bicycle;mit der U-Bahn ins Büro=to the office by subway
fliegen zu_fliegen geflogen sein|fly flew|nach {city}=to {city};nach {country}=to {country}
kommen zu_kommen gekommen sein|come came|nach Hause=home;zu spät=too late;zu Besuch=to visit
bleiben zu_bleiben geblieben sein|stay stayed|
    zu Hause=at home;im Bett=in bed;im Hotel=at the hotel
ankommen anzukommen angekommen sein|arrive arrived|
aufstehen aufzustehen aufgestanden sein|get_up got_up|
zurückkommen zurückzukommen zurückgekommen sein|come_back came_back|
"""
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
