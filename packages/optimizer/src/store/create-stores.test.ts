import { Parameter, ParameterUnit } from '@mtl/autograd';
import { type ProcessGroup, SingleProcessGroup } from '@mtl/comm';
import { expect, it } from 'vitest';
import { shardingStrategies, storeOfStrategy, stores } from './create-stores.js';

it('lists every store under a name of its own, from the one that divides least', () => {
  expect(new Set(shardingStrategies).size).toBe(Object.keys(stores).length);
  const numDivided = shardingStrategies.map((strategy) => storeOfStrategy(strategy).divides.length);
  expect(numDivided).toEqual(numDivided.toSorted((a, b) => a - b));
  expect(numDivided[0]).toBe(0);
});

it.each(Object.entries(stores))('%s divides what its entry says', (_, store) => {
  const group: ProcessGroup = new SingleProcessGroup('dp');
  Object.defineProperties(group, { size: { value: 2 }, rank: { value: 1 } });
  const weight = new Parameter({ name: 'w', globalShape: [256], initialization: { kind: 'ones' } });
  const units = [new ParameterUnit([weight])];
  const made = store.create([weight], { device: 'cpu', dtype: 'float32', group, units });
  try {
    expect(made.isDivided).toBe((store.divides as readonly string[]).includes('optimizer'));
    // float32 gradients of 256 elements
    const keepsAll = !(store.divides as readonly string[]).includes('gradients');
    expect(made.bytes.gradients).toBe(keepsAll ? 1024 : 512);
    expect(store.releasesValues).toBe((store.divides as readonly string[]).includes('parameters'));
  } finally {
    made.dispose();
  }
});

it('refuses parameters without units where a store keeps values only in units', () => {
  const group: ProcessGroup = new SingleProcessGroup('dp');
  Object.defineProperties(group, { size: { value: 2 } });
  const weight = new Parameter({ name: 'w', globalShape: [8], initialization: { kind: 'ones' } });
  const create = () => stores.fullySharded.create([weight], { device: 'cpu', dtype: 'float32', group });
  expect(create).toThrow(expect.objectContaining({ code: 'MTL_UNIT' }));
});
