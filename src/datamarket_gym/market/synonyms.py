"""A small list of English words that can stand for one another in news and reviews."""

from __future__ import annotations

_PAIRS = """
said stated, says states, big large, small little, good fine, great excellent, bad poor,
terrible awful, movie film, movies films, actor performer, actors performers, story tale,
plot storyline, scene sequence, scenes sequences, character figure, characters figures,
director filmmaker, funny amusing, boring dull, interesting engaging, beautiful lovely,
ugly hideous, scary frightening, sad gloomy, happy glad, show program, shows programs,
watch view, watched viewed, watching viewing, see observe, seen observed, think believe,
thought believed, know understand, make create, made created, making creating, get obtain,
got obtained, give offer, gave offered, take grab, took grabbed, start begin, started began,
end finish, ended finished, help assist, helped assisted, use employ, used employed,
using employing, want desire, wanted desired, need require, needed required, buy purchase,
bought purchased, sell vend, company firm, companies firms, profit gain, profits gains,
sales revenues, shares stocks, price cost, prices costs, rise increase, rose increased,
rising increasing, fall drop, fell dropped, falling dropping, report account, reported announced,
announce declare, announced declared, plan scheme, plans schemes, deal agreement,
deals agreements, talks negotiations, government administration, president leader,
minister secretary, official authority, officials authorities, police officers, killed slain,
attack assault, attacks assaults, war conflict, soldiers troops, troops soldiers, country nation,
countries nations, city town, world globe, people persons, man guy, woman lady, child kid,
children kids, game match, games matches, win victory, won triumphed, beat defeated,
lost dropped, team squad, teams squads, player athlete, players athletes, season campaign,
coach trainer, league division, goal target, computer machine, computers machines,
software program, internet web, online web, users customers, user customer, security safety,
search hunt, phone handset, phones handsets, research study, scientists researchers,
space cosmos, new fresh, old aged, first initial, last final, early initial, late tardy,
next following, many numerous, several various, few scant, more additional, most nearly,
very quite, really truly, also too, however though, because since, almost nearly, about around,
after following, before prior, between among, during throughout, against versus, may might,
could might, should must, quickly rapidly, slowly gradually, major significant, top leading,
strong sturdy, weak feeble, high elevated, low reduced, fast quick, hard tough, easy simple,
whole entire, part portion, kind sort, way manner, thing item, things items, place spot,
home house, job work, money cash, problem issue, problems issues, chance opportunity,
idea notion, reason cause, result outcome, results outcomes, number figure, group bunch,
member participant, members participants, friend pal, friends pals, wife spouse, husband spouse,
father dad, mother mom, boy lad, girl lass, life existence, death demise, love adore,
loved adored, hate despise, hated despised, enjoy like, enjoyed liked
"""

SYNONYMS: dict[str, str] = {
    pair.split()[0]: pair.split()[1] for pair in " ".join(_PAIRS.split()).split(",")
}
"""A word in lower case and what it is swapped for."""
