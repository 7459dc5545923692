"""The words of `everyday`: phrases and templates, German|English, and what fills their slots."""

PHRASES = """
Hallo!|Hello!
Hallo.|Hello.
Hallo, wie geht es dir?|Hello, how are you?
Hallo, wie geht es Ihnen?|Hello, how are you?
Hallo zusammen!|Hello, everyone!
Guten Morgen!|Good morning!
Guten Morgen.|Good morning.
Guten Tag!|Good day!
Guten Tag.|Hello.
Guten Abend!|Good evening!
Guten Abend.|Good evening.
Gute Nacht!|Good night!
Gute Nacht.|Good night.
Tschüss!|Bye!
Tschüss.|Bye.
Tschüs!|Bye!
Auf Wiedersehen!|Goodbye!
Auf Wiedersehen.|Goodbye.
Bis bald!|See you soon!
Bis morgen!|See you tomorrow!
Bis später!|See you later!
Bis dann!|See you then!
Danke!|Thank you!
Danke.|Thank you.
Danke schön!|Thank you very much!
Vielen Dank!|Thank you very much!
Vielen Dank für Ihre Hilfe.|Thank you very much for your help.
Vielen Dank für deine Hilfe.|Thank you very much for your help.
Danke für die Einladung.|Thank you for the invitation.
Bitte.|You're welcome.
Bitte schön.|You're welcome.
Gern geschehen.|You're welcome.
Kein Problem.|No problem.
Ja.|Yes.
Nein.|No.
Ja, bitte.|Yes, please.
Nein, danke.|No, thank you.
Vielleicht.|Maybe.
Natürlich.|Of course.
Entschuldigung!|Excuse me!
Entschuldigung.|Excuse me.
Entschuldigen Sie bitte.|Excuse me, please.
Es tut mir leid.|I'm sorry.
Das tut mir leid.|I'm sorry about that.
Wie geht es dir?|How are you?
Wie geht es Ihnen?|How are you?
Wie geht's?|How are you?
Mir geht es gut.|I'm fine.
Mir geht es gut, danke.|I'm fine, thank you.
Gut, danke.|Fine, thank you.
Und dir?|And you?
Und Ihnen?|And you?
Wie heißt du?|What's your name?
Wie heißen Sie?|What's your name?
Freut mich.|Nice to meet you.
Schön, dich kennenzulernen.|Nice to meet you.
Woher kommst du?|Where are you from?
Woher kommen Sie?|Where are you from?
Wo wohnst du?|Where do you live?
Wie alt bist du?|How old are you?
Wie spät ist es?|What time is it?
Wie viel kostet das?|How much does that cost?
Was kostet das?|How much is that?
Ich verstehe nicht.|I don't understand.
Ich verstehe das nicht.|I don't understand that.
Sprechen Sie Englisch?|Do you speak English?
Sprichst du Deutsch?|Do you speak German?
Können Sie mir helfen?|Can you help me?
Kannst du mir helfen?|Can you help me?
Hilfe!|Help!
Herzlichen Glückwunsch!|Congratulations!
Alles Gute zum Geburtstag!|Happy birthday!
Frohe Weihnachten!|Merry Christmas!
Gute Reise!|Have a good trip!
Guten Appetit!|Enjoy your meal!
Prost!|Cheers!
Gesundheit!|Bless you!
Willkommen!|Welcome!
Herzlich willkommen!|Welcome!
Meine Damen und Herren!|Ladies and gentlemen!
Meine Damen und Herren, herzlich willkommen.|Ladies and gentlemen, welcome.
Ich liebe dich.|I love you.
Viel Glück!|Good luck!
Viel Spaß!|Have fun!
Einen Moment, bitte.|One moment, please.
Das ist ein Test.|This is a test.
Das ist gut.|That's good.
Alles klar.|All right.
Genau.|Exactly.
Wo ist der Bahnhof?|Where is the train station?
Wo ist die Toilette?|Where is the toilet?
Ich habe Hunger.|I'm hungry.
Ich habe Durst.|I'm thirsty.
Ich bin müde.|I'm tired.
Was ist das?|What is that?
Wer ist das?|Who is that?
Was machst du?|What are you doing?
Was machst du heute?|What are you doing today?
Das Wetter ist heute schön.|The weather is nice today.
Die Sonne scheint.|The sun is shining.
Es regnet.|It's raining.
Ich weiß es nicht.|I don't know.
Das weiß ich nicht.|I don't know.
Danke schön.|Thank you very much.
Danke sehr.|Thank you very much.
Bis gleich!|See you in a bit!
Servus!|Hi!
Wie viel Uhr ist es?|What time is it?
Um wie viel Uhr?|At what time?
Kann ich mit Karte zahlen?|Can I pay by card?
Nehmen Sie Kreditkarten?|Do you take credit cards?
Ich möchte bar bezahlen.|I'd like to pay in cash.
Die Rechnung, bitte.|The bill, please.
Ein Bier, bitte.|A beer, please.
Ich hätte gern einen Tee.|I'd like a tea.
Ich nehme die Suppe.|I'll have the soup.
Noch einmal, bitte.|Once more, please.
Langsamer, bitte.|More slowly, please.
Bitte mach die Tür zu.|Please close the door.
Bitte mach die Tür auf.|Please open the door.
Mach bitte das Fenster auf.|Please open the window.
Kannst du das Fenster zumachen?|Can you close the window?
Mach bitte das Licht an.|Please turn on the light.
Mach bitte das Licht aus.|Please turn off the light.
Lange nicht gesehen!|Long time no see!
Ich freue mich auf dich.|I'm looking forward to seeing you.
Schlaf gut!|Sleep well!
Gute Besserung!|Get well soon!
Schönes Wochenende!|Have a nice weekend!
Schönen Tag noch!|Have a nice day!
Keine Ahnung.|No idea.
Das macht nichts.|It doesn't matter.
Stimmt.|That's right.
Wirklich?|Really?
Warum nicht?|Why not?
Natürlich nicht.|Of course not.
Ich habe keine Zeit.|I don't have time.
Ich muss jetzt gehen.|I have to go now.
Ich bin gleich da.|I'll be right there.
Rufen Sie einen Krankenwagen!|Call an ambulance!
Rufen Sie die Polizei!|Call the police!
Ich habe mich verlaufen.|I'm lost.
"""
MEN = """
Paul Peter Thomas Michael Daniel Lukas Felix Jonas Leon Max Jan Stefan Andreas Martin Karl Klaus
Frank Oliver Markus Tim David Simon Moritz Philipp Mehmet Marco Ivan Chen José
"""
WOMEN = """
Anna Maria Julia Laura Sarah Lena Sophie Emma Mia Hannah Lisa Katharina Claudia Sabine Petra Eva
Monika Susanne Nina Birgit Clara Marie Johanna Charlotte Ayşe Elena Yuki Fatima Zoë
"""
NAMES = MEN + WOMEN
SURNAMES = """
Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Koch Richter Klein Wolf
Schröder Neumann Schwarz Braun Zimmermann Krüger Hartmann Lange Werner Krause Lehmann Köhler Maier
Huber Kaiser Fuchs Vogel Keller Berger Frank Winkler Roth Beck Baumann Franke Albrecht Simon
Ludwig Böhm Winter
"""
SYLLABLES = """
ka lo mi ra ste fan ber dor wen kel hal mar vin tor ben ja ro lin sa no eck horn stein mann wald
bach feld berg hof er ig sch ul tz an el en ri do pas quin thal grü nö bär kö lü zig ow ski
"""
CITIES = """
Berlin:Berlin Hamburg:Hamburg München:Munich Köln:Cologne Frankfurt:Frankfurt Wien:Vienna
Zürich:Zurich Stuttgart:Stuttgart Leipzig:Leipzig Dresden:Dresden Bremen:Bremen Nürnberg:Nuremberg
Hannover:Hanover London:London Paris:Paris Rom:Rome Madrid:Madrid Prag:Prague Warschau:Warsaw
Brüssel:Brussels Genf:Geneva Tokio:Tokyo Boston:Boston Moskau:Moscow Athen:Athens Lissabon:Lisbon
"""
COUNTRIES = """
Deutschland:Germany Österreich:Austria Frankreich:France Italien:Italy Spanien:Spain
England:England Polen:Poland Portugal:Portugal Japan:Japan China:China Kanada:Canada Indien:India
Griechenland:Greece Schweden:Sweden Norwegen:Norway Dänemark:Denmark Belgien:Belgium
Russland:Russia Brasilien:Brazil
"""
MONTHS = """
Januar:January Februar:February März:March April:April Mai:May Juni:June Juli:July August:August
September:September Oktober:October November:November Dezember:December
"""
DAYS = """
Montag:Monday Dienstag:Tuesday Mittwoch:Wednesday Donnerstag:Thursday Freitag:Friday
Samstag:Saturday Sonntag:Sunday
"""
# From zero to twelve, and twenty to eighty.
ONES = """
null:zero eins:one zwei:two drei:three vier:four fünf:five sechs:six sieben:seven acht:eight
neun:nine zehn:ten elf:eleven zwölf:twelve
"""
TENS = """
zwanzig:twenty dreißig:thirty vierzig:forty fünfzig:fifty sechzig:sixty siebzig:seventy
achtzig:eighty
"""

TEMPLATES = """
Ich heiße {name}.|My name is {name}.
Ich heiße {name} {surname}.|My name is {name} {surname}.
Mein Name ist {name}.|My name is {name}.
Mein Name ist {name} {surname}.|My name is {name} {surname}.
Ich bin {name}.|I'm {name}.
Hallo, ich heiße {name}.|Hello, my name is {name}.
Hallo, ich bin {name}.|Hello, I'm {name}.
Guten Tag, mein Name ist {surname}.|Hello, my name is {surname}.
Guten Morgen, Herr {surname}.|Good morning, Mr. {surname}.
Guten Abend, Frau {surname}.|Good evening, Ms. {surname}.
Das ist mein Freund {name}.|This is my friend {name}.
Das ist Frau {surname}.|This is Ms. {surname}.
Herr {surname} ist heute nicht da.|Mr. {surname} isn't here today.
{name} kommt aus {country}.|{name} comes from {country}.
{name} wohnt in {city}.|{name} lives in {city}.
Meine Schwester heißt {name}.|My sister's name is {name}.
Ich komme aus {country}.|I come from {country}.
Ich komme aus {city}.|I come from {city}.
Ich wohne in {city}.|I live in {city}.
Ich wohne seit {number} Jahren in {city}.|I have lived in {city} for {number} years.
Wir fahren morgen nach {city}.|We're going to {city} tomorrow.
Wir sind gestern in {city} angekommen.|We arrived in {city} yesterday.
Der Zug nach {city} fährt um {hour} Uhr ab.|The train to {city} leaves at {hour} o'clock.
Ich bin {number} Jahre alt.|I'm {number} years old.
Ich bin {word} Jahre alt.|I'm {word} years old.
{name} ist {number} Jahre alt.|{name} is {number} years old.
Das kostet {number} Euro.|That costs {number} euros.
Das kostet {word} Euro.|That costs {word} euros.
Das macht {number} Euro und {cents} Cent.|That's {number} euros and {cents} cents.
Das Haus kostet {thousands} Euro.|The house costs {thousands} euros.
In der Stadt leben {thousands} Menschen.|{thousands} people live in the city.
{thousands} Menschen haben daran teilgenommen.|{thousands} people took part in it.
Die Preise sind um {decimal} Prozent gestiegen.|Prices have risen by {decimal} percent.
Das sind {decimal} Kilometer.|That's {decimal} kilometers.
Ich habe {large} Euro bezahlt.|I paid {large} euros.
{number} Prozent der Menschen sind dagegen.|{number} percent of the people are against it.
Der Zug kommt um {hour}:{minute} Uhr an.|The train arrives at {hour}:{minute}.
Der Film beginnt um halb {after}.|The movie starts at half past {clock}.
Es ist halb {after}.|It's half past {clock}.
Es ist Viertel nach {clock}.|It's a quarter past {clock}.
Es ist Viertel vor {clock}.|It's a quarter to {clock}.
{name} {surname} ist gestern in {city} angekommen.|{name} {surname} arrived in {city} yesterday.
Ich habe mit {name} {surname} gesprochen.|I spoke with {name} {surname}.
Frau {surname} hat gesagt, dass {name} krank ist.|Ms. {surname} said that {name} is sick.
Kennst du {name} {surname}?|Do you know {name} {surname}?
{name} und ich fahren nach {city}.|{name} and I are going to {city}.
Das macht {word} Cent.|That's {word} cents.
Es kostet nur {word} Cent.|It only costs {word} cents.
Es ist {hour} Uhr.|It's {hour} o'clock.
Es ist {clock} Uhr.|It's {clock} o'clock.
Wir treffen uns um {clock} Uhr.|We're meeting at {clock} o'clock.
Wir treffen uns am {day} um {hour} Uhr.|We're meeting on {day} at {hour} o'clock.
Heute ist {day}.|Today is {day}.
Heute ist der {date}. {month}.|Today is {month} {date}.
Ich habe am {date}. {month} Geburtstag.|My birthday is on {month} {date}.
Am {day} habe ich keine Zeit.|I don't have time on {day}.
Meine Telefonnummer ist {phone}.|My phone number is {phone}.
Ich habe {small} Kinder.|I have {small} children.
Ich habe {small} Brüder.|I have {small} brothers.
Ich hätte gern {small} Karten.|I'd like {small} tickets.
Im Jahr {year} war ich in {city}.|In {year} I was in {city}.
Das Buch hat {large} Seiten.|The book has {large} pages.
Bis {day}!|See you on {day}!
Vielen Dank, {name}.|Thank you very much, {name}.
Wie geht es dir, {name}?|How are you, {name}?
Tschüss, {name}!|Bye, {name}!
Ich habe {when} {object} {done}.|I {done} {object} {when}.
Wir haben {when} {place} {object} {done}.|We {done} {object} {place} {when}.
Ich habe {when} mit {who} {object} {done}.|I {done} {object} with {who} {when}.
Ich habe {when} mit {who} {place} {object} {done}.|I {done} {object} with {who} {place} {when}.
{name} hat {when} {place} {object} {done}.|{name} {done} {object} {place} {when}.
{name} sagt, dass er {object} {done} hat.|{name} says that he {done} {object}.
Sie sagt, dass sie {when} {object} {done} hat.|She says that she {done} {object} {when}.
Ich weiß, dass du {object} {done} hast.|I know that you {done} {object}.
Er freut sich, weil {name} {object} {done} hat.|He is glad because {name} {done} {object}.
"""
# A clause whose verb comes last: what was done to what, when, where and with whom. English has the
# same word for the past and the participle of these verbs.
DEEDS = """
gebaut:built:ein Haus=a house,eine Mauer=a wall,ein Boot=a boat
gekauft:bought:ein Auto=a car,einen neuen Mantel=a new coat,zwei Karten=two tickets,Brot=bread
verkauft:sold:das Auto=the car,unser Haus=our house,die Bücher=the books
gefunden:found:den Schlüssel=the key,einen Fehler=a mistake,eine Wohnung=an apartment
verloren:lost:den Schlüssel=the key,meinen Pass=my passport,viel Geld=a lot of money
gehört:heard:das Lied=the song,die Nachricht=the news,einen Hund=a dog
gelesen:read:das Buch=the book,einen Brief=a letter,die Zeitung=the newspaper
gekocht:cooked:Suppe=soup,das Abendessen=dinner,einen Fisch=a fish
gemacht:made:einen Kuchen=a cake,einen Plan=a plan,Tee=tea
geputzt:cleaned:das Fenster=the window,die Küche=the kitchen,das Bad=the bathroom
repariert:repaired:das Fahrrad=the bicycle,das Dach=the roof,die Uhr=the clock
besucht:visited:das Museum=the museum,unsere Eltern=our parents,einen Freund=a friend
"""
WHEN = """
gestern=yesterday|heute=today|heute Morgen=this morning|gestern Abend=last night
letzte Woche=last week|letztes Jahr=last year|am Montag=on Monday|vor drei Tagen=three days ago
"""
PLACES = """
im Garten=in the garden|im Park=in the park|in der Stadt=in town|in der Schule=at school
zu Hause=at home|im Dorf=in the village|in Berlin=in Berlin|bei uns=at our place
"""
PEOPLE = """
meinem Bruder=my brother|meiner Schwester=my sister|meinem Vater=my father|meiner Mutter=my mother
meinen Freunden=my friends|meiner Frau=my wife|meinem Mann=my husband|unseren Nachbarn=our neighbors
"""
