// A slider that is dragged asks sixty times a second; this asks as fast as answers come, and always for the newest.

const PATIENCE = 400; // milliseconds after which a question is given up for a newer one

/** Wraps an async f: a call while f runs waits until it ends, or for PATIENCE at most; of several waiting, one runs. */
export function steady(f) {
  let began = 0;
  let running = 0;
  let timer = null;
  const run = async () => {
    clearTimeout(timer);
    timer = null;
    began = performance.now();
    running += 1;
    const mine = running;
    await f();
    if (mine !== running) return; // a newer one has taken over
    began = 0;
    if (timer !== null) run();
  };
  return () => {
    if (!began) return run();
    timer ??= setTimeout(run, Math.max(0, began + PATIENCE - performance.now()));
    return undefined;
  };
}
