/**
 * Polls until `reached` returns true, to wait for something that a different process does. Rejects after
 * `limitMs`, 60 seconds by default.
 *
 * @param {() => boolean} reached
 * @param {{ readonly limitMs?: number }} [options]
 * @returns {Promise<void>}
 */
export async function until(reached, { limitMs = 60_000 } = {}) {
  const deadline = performance.now() + limitMs;
  while (!reached()) {
    if (performance.now() > deadline) throw new Error(`never: ${reached}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
