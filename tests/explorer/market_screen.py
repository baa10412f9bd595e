"""The market page as a test uses it, and the same market paid by the library alone."""

from urllib.parse import parse_qs, urlsplit

from datamarket_gym import Metrics, ProviderMarket, Synthetic, create, get_mechanism
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems import Checks, Paid, certify

SOON = 60_000  # milliseconds: kernels may have to be compiled first


def wait_for_answer(page, turn=0):
    """Wait for an answer after so many."""
    new = f".results[data-turn]:not([data-turn='{turn}'])"
    page.wait_for_selector(f"{new} .answer:not(.stale), {new} [role=alert]", timeout=SOON)
    assert page.locator("[role=alert]").count() == 0, page.inner_text("[role=alert]")


def opened_market(page, url, query=""):
    """The page with its first answer."""
    page.goto(f"{url}/market{query}")
    wait_for_answer(page)
    return page


def after(page, act):
    """Do something, and wait for the answer to it."""
    turn = page.get_attribute(".results", "data-turn")
    act()
    wait_for_answer(page, turn)


def asked(page):
    """What the address asks for."""
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def unfold(page):
    """Open all groups of controls."""
    page.evaluate(
        "document.querySelectorAll('.market-form details').forEach((each) => (each.open = true))"
    )


def control(page, name):
    return page.locator(f".market-form [name='{name}']")


def moved(page, name, value):
    """Move a slider as a pointer does."""
    control(page, name).evaluate(
        "(node, value) => { node.value = value; node.dispatchEvent(new Event('input', {bubbles: true})) }",
        value,
    )


def minus(text):
    """A number on the page."""
    return float(text.replace("\u2212", "-").replace("\u00b10", "0"))


class Library:
    """The same market, paid by the library alone."""

    def __init__(self, chosen, attack, **sizes):
        self.market = ProviderMarket.from_task(Synthetic(**sizes), seed=0, learner="recommended")
        self.profile = create("attack", attack).apply(0, self.market.state)
        self.chosen, self.oracle = chosen, self.market.utility_oracle()
        sides = (self.market.honest, self.profile)
        self._paid = {
            key: [each.pay(side.submission, self.oracle) for side in sides]
            for key, each in (("shapley", get_mechanism("shapley")), ("chosen", chosen))
        }

    def paid(self, scheme):
        """Payments, honest and attacked."""
        return self._paid[scheme]

    def totals(self, scheme):
        """By provider, honest and attacked."""
        honest, attacked = self.paid(scheme)
        names = self.market.state.providers
        return {n: (honest.total([n]), attacked.total(self.profile.identities_of(n))) for n in names}

    def gain(self, scheme):
        honest, attacked = self.paid(scheme)
        return Metrics.evaluate(attacked, self.profile, honest).gain

    def expected_gain(self):
        honest, attacked = self.paid("chosen")
        pay = honest.total(["provider_0"])
        checked = CheckedAttack(
            self.chosen, self.profile, self.market.honest, self.oracle, "provider_0", pay, attacked
        )
        return checked.expected(Checks()).pay / pay

    def certificate(self):
        sides = (self.market.honest, self.profile)
        return certify(*(Paid.by(self.chosen, each, self.oracle) for each in sides), self.chosen)
