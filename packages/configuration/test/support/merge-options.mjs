/**
 * Lays options over each other, topic by topic: the last that has an option counts, and one that is
 * `undefined` leaves the option out, whatever came before.
 *
 * @param {readonly import('@mtl/configuration').RunOptions[]} all
 * @returns {import('@mtl/configuration').RunOptions}
 */
export function mergeOptions(...all) {
  const merged = {};
  for (const [topic, values] of all.flatMap((options) => Object.entries(options))) {
    merged[topic] = typeof values === 'object' ? { ...merged[topic], ...values } : values;
  }
  return merged;
}
