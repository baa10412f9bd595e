// The page that asks for the token, where the explorer can be reached from other machines.
const form = document.getElementById("enter");
const said = document.getElementById("said");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/api/enter", {
    method: "POST",
    headers: { "content-type": "application/json", "x-datamarket": "explorer" },
    body: JSON.stringify({ token: form.elements.token.value }),
  }).catch(() => null);
  if (answer && answer.ok) {
    location.replace("/");
    return;
  }
  said.textContent = answer ? (await answer.json()).error : "The explorer does not answer; is it still running?";
  said.hidden = false;
});
