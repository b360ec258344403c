/** Lets the event loop run its other tasks once. A page has no `setImmediate`, and waits a little longer. */
export const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    if (globalThis.setImmediate === undefined) setTimeout(resolve);
    else setImmediate(resolve);
  });
