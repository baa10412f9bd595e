// Answers that were given and are not recorded yet: kept in this browser, so that a reload loses none of them.
//
// They are recorded together, a moment after the last key: a slip that is undone at once leaves no trace, and the ledger
// gets an entry for some answers, not for every key.

const PAUSE = 2500; // milliseconds after the last answer
const MANY = 10;

/** The answers of a draw that wait; `record(answers)` sends them and says which were refused. */
export const waitingAnswers = (run, beacon, record) => {
  const prefix = `datamarket answer ${run} ${beacon} `;
  const keys = () => Object.keys(localStorage).filter((key) => key.startsWith(prefix));
  let timer = 0;
  let sending = null;
  const waiting = {
    get(number) {
      const text = localStorage.getItem(prefix + number);
      return text ? JSON.parse(text) : null;
    },
    all: () => keys().map((key) => JSON.parse(localStorage.getItem(key))).sort((a, b) => a.number - b.number),
    put(answer) {
      localStorage.setItem(prefix + answer.number, JSON.stringify(answer));
      clearTimeout(timer);
      timer = setTimeout(() => waiting.flush(), keys().length >= MANY ? 0 : PAUSE);
    },
    drop(number) {
      localStorage.removeItem(prefix + number);
    },
    /** Record all that wait; one sending at a time, and what was given meanwhile goes with the next. */
    async flush() {
      clearTimeout(timer);
      while (sending) await sending;
      const some = waiting.all();
      if (!some.length) return;
      sending = record(some).then((recorded) => {
        if (!recorded) return;
        for (const answer of some) {
          if (localStorage.getItem(prefix + answer.number) === JSON.stringify(answer)) waiting.drop(answer.number);
        }
      }).finally(() => (sending = null));
      await sending;
    },
    stop() {
      clearTimeout(timer);
    },
  };
  return waiting;
};
