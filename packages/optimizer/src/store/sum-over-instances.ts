import { instancesGroup, type ParallelGroups } from './parallel-groups.js';
import type { ParameterStore } from './parameter-store.js';

/**
 * Sums gradients over all instances, after a store has reduced them within its instance. For each element,
 * the rank that owns it sends one value per step, regardless of how many micro-batches the store has reduced.
 * Every rank must call this function. All instances then have the same bits and update their states in the
 * same way.
 */
export function sumOverInstances(store: ParameterStore, groups: ParallelGroups): void {
  const [first] = store.ranges;
  const group = first && instancesGroup(groups, first.parameter.placement.view);
  if (group === undefined) return;
  const parts = store.owned.map((range) => store.gradient(range));
  try {
    const works = parts.map((part) => group.allReduce(part));
    for (const work of works) work.wait();
  } finally {
    for (const part of parts) part.dispose();
  }
}
