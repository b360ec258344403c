/**
 * Lets the event loop run its other tasks once. In a web page, which has no `setImmediate`, the call takes a
 * little longer.
 */
export const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    if (globalThis.setImmediate === undefined) setTimeout(resolve);
    else setImmediate(resolve);
  });
