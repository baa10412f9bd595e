"""A market's money as plain dictionaries of cents, written from what the documentation promises and from nothing else.

The ledger is held against it after every step. It shares no code with the ledger: no entries, no chain, no fold.
"""

from collections import Counter


class RefusedByModel(Exception):
    """The ledger must refuse this, and stay as it is."""


def must(condition, why):
    if not condition:
        raise RefusedByModel(why)


class Market:
    """Who is owed what, by (payee, currency); what was put in, by currency."""

    def __init__(self):
        self.payable, self.outgoing, self.sent, self.balance = (Counter() for _ in range(4))
        self.pots, self.fees, self.corrections, self.funded, self.written_off = (
            Counter() for _ in range(5)
        )
        self.runs, self.batches, self.holds, self.least = {}, {}, {}, {}
        self.people = 1  # who must approve
        self.asking = {}
        self.bounced = set()

    # runs

    def draft(self, run, currency, amount, lines, opening, manifest):
        """Lines: payee -> (paid, balance after)."""
        if run in self.runs:
            must(self.runs[run]["manifest"] == manifest, "the same run with other files")
            return
        must(sum(paid for paid, _ in lines.values()) == amount, "does not pay its amount")
        must(sum(left for _, left in lines.values()) == sum(opening.values()), "makes up balances")
        must(all(paid >= 0 for paid, _ in lines.values()), "pays below zero")
        must(set(opening) <= set(lines), "forgets balances")
        self.runs[run] = {
            "state": "draft", "currency": currency, "amount": amount, "lines": lines, "manifest": manifest,
            "opening": {who: left for who, left in opening.items() if left}, "people": [], "reference": None,
        }  # fmt: skip

    def approve(self, run, by, manifest):
        known = self.runs[run]
        if known["state"] in ("approved", "paid"):
            return
        must(known["state"] == "draft", "superseded")
        must(known["manifest"] == manifest, "other files")
        people = list(known["people"])
        if by not in people:
            people.append(by)
        if len(people) >= self.people:
            code = known["currency"]
            must(self.balances(code) == known["opening"], "balances have moved since")
            for who, (paid, left) in known["lines"].items():
                self.payable[who, code] += paid
                self.balance[who, code] += left - known["opening"].get(who, 0)
            self.pots[code] += known["amount"]
            known["state"] = "approved"
        known["people"] = people

    def supersede(self, run):
        must(self.runs[run]["state"] in ("draft", "superseded"), "no draft")
        self.runs[run]["state"] = "superseded"

    def paid(self, run, reference):
        """Without a batch it is what the run itself pays, where exactly that can be sent; no batch of several runs."""
        known = self.runs[run]
        must(reference.strip(), "no reference")
        if known["state"] == "paid":
            must(known["reference"] == reference, "a second reference")
            return
        must(known["state"] == "approved", "not approved")
        name = self._holding(run)
        must(name is None or list(self.batches[name]["runs"]) == [run], "a batch of several runs")
        if name is None:
            pays = {who: paid for who, (paid, _) in known["lines"].items() if paid}
            must(pays == self._sendable(known["currency"], run), "other amounts than the run pays")
            name = self._take(pays, run, known["currency"])
            must(name is not None, "nothing to send")
        self._send(name, reference)

    # batches

    def order(self, currency, run=None):
        if run is None:
            open_ = [
                b for b in self.batches.values()
                if (b["state"], b["currency"], b["run"]) == ("ordered", currency, None)
            ]  # fmt: skip
            if open_:
                return
        else:
            must(self.runs[run]["state"] in ("approved", "paid"), "not approved")
            must(self.runs[run]["currency"] == currency, "the run is in another currency")
            if self._holding(run) is not None:
                return
        must(self._take(self._sendable(currency, run), run, currency) is not None, "nothing to send")

    def _holding(self, run):
        """The open batch that holds a run's payments."""
        for name, batch in self.batches.items():
            if batch["state"] == "ordered" and run in batch["runs"]:
                return name
        return None

    def _waiting(self, currency):
        return [
            run for run, known in self.runs.items()
            if known["state"] == "approved" and known["currency"] == currency and self._holding(run) is None
        ]  # fmt: skip

    def _sendable(self, currency, run=None):
        """What may go out now; for one run, without what waits to be sent for other runs."""
        owed = {who: owed for (who, code), owed in self.payable.items() if code == currency}
        if run is not None:
            owed = {who: amount for who, amount in owed.items() if who in self.runs[run]["lines"]}
            for other in self._waiting(currency):
                for who, (paid, _) in self.runs[other]["lines"].items():
                    if other != run and who in owed:
                        owed[who] -= paid
        least = max(1, self.least.get(currency, 1))
        return {who: amount for who, amount in owed.items() if amount >= least and who not in self.holds}

    def _take(self, lines, run, currency):
        if not lines:
            return None
        runs = self._waiting(currency) if run is None else [run]
        for who, owed in lines.items():
            self.payable[who, currency] -= owed
            self.outgoing[who, currency] += owed
        name = len(self.batches)
        self.batches[name] = {
            "currency": currency, "run": run, "runs": runs, "lines": lines, "state": "ordered", "reference": None,
        }  # fmt: skip
        return name

    def confirm(self, name, reference):
        must(name in self.batches, "no such batch")
        batch = self.batches[name]
        must(reference.strip(), "no reference")
        if batch["state"] == "sent":
            must(batch["reference"] == reference, "a second reference")
            return
        must(batch["state"] == "ordered", "cancelled")
        self._send(name, reference)

    def _send(self, name, reference):
        batch = self.batches[name]
        for who, owed in batch["lines"].items():
            self.outgoing[who, batch["currency"]] -= owed
            self.sent[who, batch["currency"]] += owed
        batch.update(state="sent", reference=reference)
        for run in batch["runs"]:
            if self.runs[run]["state"] == "approved":
                self.runs[run].update(state="paid", reference=reference)

    def cancel(self, name):
        must(name in self.batches and self.batches[name]["state"] == "ordered", "no open batch")
        batch = self.batches[name]
        for who, owed in batch["lines"].items():
            self.outgoing[who, batch["currency"]] -= owed
            self.payable[who, batch["currency"]] += owed
        batch["state"] = "cancelled"

    def bounce(self, name, who):
        """What a batch sent to somebody comes back."""
        must(name in self.batches and self.batches[name]["state"] == "sent", "not sent")
        batch = self.batches[name]
        must(who in batch["lines"] and (name, who) not in self.bounced, "not sent, or back already")
        self.bounced.add((name, who))
        self.sent[who, batch["currency"]] -= batch["lines"][who]
        self.payable[who, batch["currency"]] += batch["lines"][who]

    # single payees

    def fee(self, who, currency, amount):
        must(0 < amount <= self.payable[who, currency], "below zero, or more than is owed")
        self.payable[who, currency] -= amount
        self.fees[currency] += amount

    def correct(self, about, currency, who, amount):
        """Correct an entry about some payees in a currency; one that is about nobody's money cannot be."""
        must(who in about and amount, "not about this payee")
        self.payable[who, currency] += amount
        self.corrections[currency] += amount

    def fund(self, who, currency, amount):
        must(0 < amount <= self.balance[who, currency], "more than the credit")
        self.balance[who, currency] -= amount
        self.payable[who, currency] += amount
        self.funded[currency] += amount

    def write_off(self, who, currency, amount):
        left = self.balance[who, currency]
        must(amount and abs(amount) <= abs(left) and (amount < 0) == (left < 0), "more than the balance")
        self.balance[who, currency] -= amount
        self.written_off[currency] += amount

    def hold(self, who):
        must(who not in self.holds, "held already")
        self.holds[who] = True

    def release(self, who):
        must(who in self.holds, "not held")
        del self.holds[who]

    def rule_people(self, people, by):
        must(1 <= people <= 10, "how many?")
        if people < self.people:  # as many as before must ask for less care
            asking = {*self.asking.get(people, ()), by}
            if len(asking) < self.people:
                self.asking[people] = asking
                return
        self.people, self.asking = people, {}

    def rule_least(self, currency, least):
        must(least >= 0, "below zero")
        self.least[currency] = least

    # what must always hold

    def balances(self, currency):
        return {who: left for (who, code), left in self.balance.items() if code == currency and left}

    def require_whole(self):
        """What was put in is owed, on its way or sent; balances add up to what ended of them. To the cent."""
        for code in {*self.pots, *self.corrections, *self.funded, *self.written_off}:
            put_in = self.pots[code] + self.corrections[code] + self.funded[code] - self.fees[code]
            there = sum(
                amount
                for place in (self.payable, self.outgoing, self.sent)
                for (_, currency), amount in place.items()
                if currency == code
            )
            assert put_in == there, (code, put_in, there)
            left = sum(amount for (_, currency), amount in self.balance.items() if currency == code)
            assert left == -self.funded[code] - self.written_off[code], code
