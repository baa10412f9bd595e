"""Random histories of a market: the same steps are done to a ledger and to a model of it in plain dictionaries."""

from copy import deepcopy

from clerk import Clerk
from market_model import Market, RefusedByModel
from raw_rows import nonzero, picture, recounted, said

from datamarket_gym.errors import DataMarketError

PAYEES = ("ann", "Bo, Jr.", "çelik", "=dee", "ed", "ann ")
CURRENCIES = ("EUR", "JPY")
PEOPLE = ("R. Okafor", "M. Ito", "S. Lund")
CORRECTABLE = ("payment", "correction", "fee", "sent", "bounced")


class History:
    """A ledger and its model, side by side; `random` decides what happens."""

    def __init__(self, where, folder, random):
        self.clerk, self.random, self.where = Clerk(where, folder), random, where
        self.market = Market()
        self.names = []  # of batches: the model counts them, the ledger has names for them
        self.refused, self.done = {}, {}
        self.entries = said(where)

    def steps(self, number):
        actions = [
            self.draft, self.draft, self.approve, self.approve, self.approve, self.approve, self.paid, self.order,
            self.order, self.confirm, self.cancel, self.bounce, self.bounce, self.fee, self.correct, self.fund,
            self.write_off, self.hold, self.release, self.people, self.least, self.supersede,
        ]  # fmt: skip
        for _ in range(number):
            self.random.choice(actions)()

    def do(self, name, of_model, of_ledger):
        """One step: done to both, or refused by both; a refusal, or what was so before, leaves every byte alone."""
        after, before = deepcopy(self.market), picture(self.where)
        try:
            of_model(after)
        except RefusedByModel as why:
            try:
                of_ledger(self.clerk)
            except DataMarketError:
                self.refused[name] = self.refused.get(name, 0) + 1
            else:
                raise AssertionError(f"{name}: {why}, and the ledger did it") from None
            assert picture(self.where) == before, name
        else:
            result = of_ledger(self.clerk)
            if vars(after) == vars(self.market) and name not in (
                "people",
                "least",
            ):  # rules are entered again
                assert picture(self.where) == before, name
            self.market = after
            if name in ("order", "paid"):
                self.names += [x for x in self.clerk.ledger.accounts().batches if x not in self.names]
            self.done[name] = self.done.get(name, 0) + 1
            self.compare()
            return result

    def compare(self):
        """The ledger says what the model does; so do its rows, added up by hand; and every cent is somewhere."""
        entries, accounts, market = said(self.where), self.clerk.ledger.accounts(), self.market
        assert entries[: len(self.entries)] == self.entries  # nothing that was entered goes or changes
        self.entries = entries
        market.require_whole()
        places = [nonzero(x) for x in (market.payable, market.outgoing, market.sent, market.balance)]
        assert recounted(entries) == places
        assert [
            nonzero(x) for x in (accounts.payable, accounts.outgoing, accounts.sent, accounts.balance)
        ] == places
        ids = {self.clerk.run_id(run): known for run, known in market.runs.items()}
        assert {run: record.state for run, record in accounts.runs.items()} == {
            run: known["state"] for run, known in ids.items()
        }
        assert {run: record.reference for run, record in accounts.runs.items()} == {
            run: known["reference"] for run, known in ids.items()
        }
        assert {run: [by for by, _ in r.approvals] for run, r in accounts.runs.items()} == {
            run: known["people"] for run, known in ids.items()
        }
        assert [(b.state, b.currency, b.lines) for b in accounts.batches.values()] == [
            (b["state"], b["currency"], b["lines"]) for b in market.batches.values()
        ]
        assert set(accounts.holds) == set(market.holds)
        assert accounts.rules.approvals == market.people

    # what may happen; about one in four is nothing that can be

    def chance(self, of):
        return self.random.random() < of

    def run(self):
        """A run; often the last one, whose balances are still those of the ledger."""
        runs = list(self.market.runs)
        return None if not runs else runs[-1] if self.chance(0.6) else self.random.choice(runs)

    def payee(self):
        return self.random.choice(PAYEES)

    def known(self, who):
        return any(who in run["lines"] for run in self.market.runs.values())

    def draft(self):
        if self.market.runs and self.chance(0.1):  # the same run again: as it is, or with other files
            run, edition = self.run(), self.random.choice([0, 7])
            known = self.market.runs[run]
            where = (known["currency"], known["amount"], known["lines"], known["opening"])
            manifest = known["manifest"] if edition == 0 else "another"
            self.do(
                "draft again",
                lambda m: m.draft(run, *where, manifest),
                lambda c: c.draft(run, *where, edition=edition),
            )
            if edition:  # the folder is as it was
                self.clerk.draft(run, *where)
            return
        run, currency = f"run {len(self.market.runs)}", self.random.choice(CURRENCIES)
        opening = self.market.balances(currency)
        amount = self.random.choice([0, 1, 99, 100_000, 123_457])
        among = sorted({*opening, *self.random.sample(PAYEES, self.random.randint(1, len(PAYEES)))})
        cuts = sorted(self.random.randint(0, amount) for _ in among[1:])
        paid = [b - a for a, b in zip([0, *cuts], [*cuts, amount], strict=True)]
        left = [opening.get(who, 0) for who in among]
        if self.chance(0.7) and len(among) > 1:
            moved = self.random.randint(1, 5_000)
            i, j = self.random.sample(range(len(among)), 2)
            left[i], left[j] = left[i] + moved, left[j] - moved
        if self.chance(0.1):
            left[0] += 1  # a cent from nowhere
        if self.chance(0.1):
            paid[0] += 1
        lines = dict(zip(among, zip(paid, left, strict=True), strict=True))
        self.do(
            "draft",
            lambda m: m.draft(run, currency, amount, lines, opening, "as made"),
            lambda c: c.draft(run, currency, amount, lines, opening),
        )

    def approve(self):
        if (run := self.run()) is not None:
            by, other = self.random.choice(PEOPLE), self.chance(0.1)
            self.do(
                "approve",
                lambda m: m.approve(run, by, "another" if other else m.runs[run]["manifest"]),
                lambda c: c.approve(run, by, "0" * 64 if other else None),
            )

    def supersede(self):
        if self.chance(0.3) and (run := self.run()) is not None:
            self.do("supersede", lambda m: m.supersede(run), lambda c: c.supersede(run))

    def paid(self):
        if (run := self.run()) is not None:
            reference = self.random.choice(["transfer 1", "transfer 2", " "])
            self.do("paid", lambda m: m.paid(run, reference), lambda c: c.paid(run, reference))

    def order(self):
        run, currency = self.run() if self.chance(0.5) else None, self.random.choice(CURRENCIES)
        self.do("order", lambda m: m.order(currency, run), lambda c: c.order(currency, run))

    def batch(self):
        if not self.names or self.chance(0.1):
            return len(self.names) + 100, "no such batch"
        which = self.random.randrange(len(self.names))
        return which, self.names[which]

    def confirm(self):
        which, name = self.batch()
        reference = self.random.choice(["order 1", "order 2", ""])
        self.do("confirm", lambda m: m.confirm(which, reference), lambda c: c.confirm(name, reference))

    def cancel(self):
        which, name = self.batch()
        self.do("cancel", lambda m: m.cancel(which), lambda c: c.cancel(name))

    def bounce(self):
        sent = [e for e in self.entries if e["kind"] == "sent"]
        entry = self.random.choice(sent if sent and self.chance(0.9) else self.entries)
        who = entry["payee"] if self.chance(0.9) else self.payee()
        which = self.names.index(entry["content"]["batch"]) if entry["kind"] == "sent" else None
        which = which if who == entry["payee"] else None
        number = entry["number"] if self.chance(0.9) else 10_000
        self.do(
            "bounce",
            lambda m: m.bounce(which if number == entry["number"] else None, who),
            lambda c: c.bounce(number, who),
        )

    def amount(self, of):
        return self.random.choice([1, of, of // 2, of + 1, 0, -1, -of])

    def fee(self):
        owed = [key for key, amount in self.market.payable.items() if amount > 0]
        some = self.payee(), self.random.choice(CURRENCIES)
        who, currency = self.random.choice(owed) if owed and self.chance(0.6) else some
        amount = self.amount(self.market.payable[who, currency])
        self.do("fee", lambda m: m.fee(who, currency, amount), lambda c: c.fee(who, currency, amount))

    def correct(self):
        entry = self.random.choice(self.entries)
        if entry["kind"] == "approved":
            about = next(
                set(known["lines"]) for run, known in self.market.runs.items()
                if self.clerk.run_id(run) == entry["run"]
            )  # fmt: skip
        else:
            about = {entry["payee"]} if entry["kind"] in CORRECTABLE else set()
        who = self.random.choice(sorted(about)) if about and self.chance(0.8) else self.payee()
        number = entry["number"] if self.chance(0.9) else 0
        amount = self.random.choice([1, -1, 250, -700, 0])
        self.do(
            "correct",
            lambda m: m.correct(about if number else set(), entry["currency"], who, amount),
            lambda c: c.correct(number, who, amount),
        )

    def ended(self):
        held = [key for key, left in self.market.balance.items() if left]
        if held and self.chance(0.8):
            return self.random.choice(held)
        return self.payee(), self.random.choice(CURRENCIES)

    def fund(self):
        who, currency = self.ended()
        amount = self.amount(self.market.balance[who, currency])
        self.do("fund", lambda m: m.fund(who, currency, amount), lambda c: c.fund(who, currency, amount))

    def write_off(self):
        who, currency = self.ended()
        amount = self.amount(self.market.balance[who, currency])
        self.do(
            "write_off",
            lambda m: m.write_off(who, currency, amount),
            lambda c: c.write_off(who, currency, amount),
        )

    def hold(self):
        if self.known(who := self.payee()) and self.chance(0.5):
            self.do("hold", lambda m: m.hold(who), lambda c: c.hold(who))

    def release(self):
        held = list(self.market.holds)
        who = self.random.choice(held) if held and self.chance(0.6) else self.payee()
        if self.known(who):
            self.do("release", lambda m: m.release(who), lambda c: c.release(who))

    def people(self):
        if self.chance(0.6):
            people, by = self.random.choice([1, 2, 1, 0, 11]), self.random.choice(PEOPLE)
            self.do("people", lambda m: m.rule_people(people, by), lambda c: c.rule_people(people, by))

    def least(self):
        currency, least = self.random.choice(CURRENCIES), self.random.choice([0, 0, 500, -1])
        self.do(
            "least", lambda m: m.rule_least(currency, least), lambda c: c.rule_least(currency, least)
        )
