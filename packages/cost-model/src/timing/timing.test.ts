import { describe, expect, it } from 'vitest';
import { loadProfile } from '../open-profile.js';
import type { CollectiveOperation, MatmulOperation } from '../operations/operation.js';
import { listedProfile } from '../profiles/profile.js';
import { collectiveSeconds } from './collective-seconds.js';
import { matmulSeconds } from './hardware-times.js';
import { operationsSeconds, passSeconds } from './operations-seconds.js';

const profile = listedProfile(loadProfile('a100-80gb-megatron'));
const { hardware } = profile;
const matmul = (rows: number, columns: number, depth: number): MatmulOperation => ({
  kind: 'matmul',
  name: 'product',
  time: 'matmuls',
  batch: 1,
  rows,
  columns,
  depth,
  resultBytes: 2,
});
const allReduce = (size: number, perNode: number, bytes = 1e9): CollectiveOperation => ({
  kind: 'collective',
  name: 'sum',
  collective: 'all-reduce',
  bytes,
  group: { axis: 'tp', size, perNode },
});

describe('matmulSeconds', () => {
  it('is a whole number of waves: one tile more than the multiprocessors take costs a whole wave', () => {
    const oneTile = {
      ...hardware,
      matmul: { ...hardware.matmul, tiles: [{ rows: 256, columns: 128, relativeRate: 1 }] },
    };
    const start = hardware.kernelStartSeconds.value;
    const wave = matmulSeconds(matmul(256 * 9, 128 * 12, 8192), oneTile) - start;
    const more = matmulSeconds(matmul(256 * 9, 128 * 13, 8192), oneTile) - start;
    expect(more / wave).toBeCloseTo(2, 10);
    // the time of a wave of 108 tiles is its FLOPs, including the start and end of each tile, divided by the
    // peak rate times the efficiency
    const flops = 2 * 256 * 108 * 128 * (8192 + hardware.matmul.tileOverheadDepth.value);
    expect(wave).toBeCloseTo(flops / (312e12 * hardware.matmul.efficiency.value), 12);
  });

  it('takes the time of its bytes where there is little to compute', () => {
    const bytes = 2 * (8192 * 64 + 64 * 8192) + 8 * 8192 * 8192;
    const bandwidth = 2039e9 * hardware.memory.efficiency.value;
    expect(matmulSeconds({ ...matmul(8192, 8192, 64), resultBytes: 8 }, hardware)).toBeCloseTo(
      bytes / bandwidth + hardware.kernelStartSeconds.value,
      12,
    );
  });

  it('splits the depth of a small result', () => {
    const whole = 2 * 128 * 64 * 65_536;
    const alone = whole / ((312e12 * hardware.matmul.efficiency.value) / 108);
    expect(matmulSeconds(matmul(128, 64, 65_536), hardware)).toBeLessThan(alone / 2);
  });
});

describe('collectiveSeconds', () => {
  it('is the time of a ring within a node', () => {
    const { bytesPerSecond, efficiency, latencySeconds } = hardware.linkInside;
    const expected =
      2 * ((7 / 8) * (1e9 / (bytesPerSecond.value * efficiency.value)) + 7 * latencySeconds.value);
    expect(collectiveSeconds(allReduce(8, 8), profile)).toBeCloseTo(expected, 12);
    expect(collectiveSeconds({ ...allReduce(8, 8), collective: 'all-gather' }, profile)).toBeCloseTo(
      expected / 2,
      12,
    );
  });

  it('uses the adapters of the ranks on a node, or those that the group states', () => {
    const one = collectiveSeconds(allReduce(32, 1), profile);
    const four = collectiveSeconds(allReduce(32, 4), profile);
    expect(one / four).toBeGreaterThan(3.9);
    const group = { ...allReduce(32, 4).group, adapters: 1 };
    expect(collectiveSeconds({ ...allReduce(32, 4), group }, profile) / four).toBeGreaterThan(3.5);
  });

  it('sends the parts of an all-to-all over the adapters of a node once', () => {
    const exchange = (size: number, perNode: number) =>
      collectiveSeconds({ ...allReduce(size, perNode), collective: 'all-to-all' }, profile);
    // within a node, an all-to-all transfers the same number of bytes as a gather
    expect(exchange(8, 8)).toBe(collectiveSeconds({ ...allReduce(8, 8), collective: 'all-gather' }, profile));
    // on four nodes of eight ranks with an adapter each, 24 of 32 parts of a gigabyte leave the node
    const { linkBetween } = hardware;
    const rate =
      linkBetween.bytesPerSecond.value * linkBetween.efficiency.value * profile.software.linkFactor.value;
    expect(exchange(32, 8)).toBeCloseTo((24 / 32) * (1e9 / rate) + linkBetween.latencySeconds.value, 9);
  });

  it('is 0 for one rank', () => {
    expect(collectiveSeconds(allReduce(1, 1), profile)).toBe(0);
  });
});

describe('operationsSeconds', () => {
  it('hides a collective behind a matmul, at a cost', () => {
    const behind = matmul(8192, 8192, 8192);
    const collective = allReduce(8, 8, 1e8);
    const [computing, communicating] = [
      matmulSeconds(behind, hardware),
      collectiveSeconds(collective, profile),
    ];
    expect(communicating).toBeLessThan(computing);
    const hidden = passSeconds(
      operationsSeconds([{ kind: 'hidden-collective', collective, behind }], profile),
    );
    expect(hidden).toBeCloseTo(computing + hardware.overlapCost.value * communicating, 12);
    const apart = passSeconds(operationsSeconds([collective, behind], profile));
    expect(apart).toBeCloseTo(computing + communicating, 12);
  });

  it('runs collectives of a group one after the other, of two groups at the same time', () => {
    const first = allReduce(8, 8, 1e9);
    const other = { ...first, group: { ...first.group, role: 'other' } };
    const seconds = (second: typeof first): number =>
      passSeconds(
        operationsSeconds(
          [
            { kind: 'start', id: 0, collective: first },
            { kind: 'start', id: 1, collective: second },
            { kind: 'wait', id: 1 },
            { kind: 'wait', id: 0 },
          ],
          profile,
        ),
      );
    const each = collectiveSeconds(first, profile);
    expect(seconds(first)).toBeCloseTo(2 * each, 12);
    expect(seconds(other)).toBeCloseTo(each, 12);
  });

  it('waits for the host where operations are short', () => {
    const operations = Array.from({ length: 100 }, () => matmul(64, 64, 64));
    const seconds = operationsSeconds(operations, profile);
    expect(seconds.host).toBeGreaterThan(0);
    expect(passSeconds(seconds)).toBeCloseTo(100 * profile.software.hostSecondsPerOperation.value, 12);
  });
});
