"""A ledger with something of everything in it, the same every time."""

from clerk import Clerk


def written(where, folder):
    """Enter the story; the clerk who did."""
    clerk = Clerk(where, folder)
    clerk.rule_people(2, "R. Okafor")
    clerk.draft(
        "june", "EUR", 100_000, {"ann": (60_000, 1_500), "ed": (40_000, -2_500), "çelik": (0, 1_000)}, {}
    )
    clerk.approve("june", "R. Okafor")
    clerk.approve("june", "M. Ito")
    clerk.draft("tokyo", "JPY", 777, {"ann": (700, 0), "=dee": (77, 0)}, {})
    clerk.draft("tokyo again", "JPY", 700, {"ann": (700, 0)}, {})
    clerk.approve("tokyo", "R. Okafor")
    clerk.approve("tokyo", "M. Ito")
    clerk.supersede("tokyo again")
    clerk.hold("ed")
    batch = clerk.order("EUR", "june")
    clerk.confirm(batch.id, "transfer 1")
    sent = [e for e in clerk.ledger.read() if e.kind == "sent"]
    clerk.bounce(sent[0].number, sent[0].payee)
    clerk.release("ed")
    clerk.fee("ed", "EUR", 35)
    paid = next(e for e in clerk.ledger.read() if e.kind == "payment" and e.payee == "ed")
    clerk.correct(paid.number, "ed", -1_200)
    clerk.fund("çelik", "EUR", 400)
    clerk.write_off("ed", "EUR", -500)
    clerk.cancel(clerk.order("EUR").id)
    clerk.draft(
        "july", "EUR", 5_000, {"ann": (5_000, 1_600), "ed": (0, -2_000), "çelik": (0, 500)},
        {"ann": 1_500, "ed": -2_000, "çelik": 600},
    )  # fmt: skip
    clerk.approve("july", "R. Okafor")
    return clerk
