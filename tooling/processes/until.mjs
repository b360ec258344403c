/**
 * Polls for something that another process does. Rejects after `limitMs`, 60 seconds unless given.
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
