/**
 * Merges options, topic by topic: the last object that has an option counts, and the value `undefined`
 * removes the option.
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
