import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StepMetrics } from '@mtl/trainer';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeEventRecord, readEventRecords } from './event-records.js';
import { TensorboardWriter } from './tensorboard-writer.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-tensorboard-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const clock = { now: () => 1_700_000_000.5, host: 'host' };

function makeMetrics(iteration: number): StepMetrics {
  return {
    iteration,
    consumedSamples: iteration * 4,
    consumedTokens: iteration * 64,
    globalBatchSize: 4,
    loss: 1 / iteration,
    gradNorm: 0.5,
    learningRate: 0.25,
    lossScale: 1,
    skipped: false,
    stepMs: 2000,
    tokensPerSecond: 32,
    modelTflops: 0.125,
    peakBytes: 1024,
  };
}

function train(
  iterations: readonly number[],
  resume?: { iteration: number; consumedSamples: number },
): string {
  const writer = new TensorboardWriter({ directory, ...clock, ...(resume === undefined ? {} : { resume }) });
  for (const iteration of iterations) writer.step(makeMetrics(iteration));
  writer.close();
  return writer.path;
}

/** Returns every point in the folder, as `tag@step` with the point's value. */
function points(): Map<string, number> {
  const all = new Map<string, number>();
  for (const name of readdirSync(directory).sort()) {
    for (const { event } of readEventRecords(readFileSync(join(directory, name)))) {
      for (const { tag, value } of event.scalars ?? []) {
        expect(all.has(`${tag}@${event.step}`), `${tag}@${event.step} twice`).toBe(false);
        all.set(`${tag}@${event.step}`, value);
      }
    }
  }
  return all;
}

/**
 * Returns the points that TensorBoard shows after it reads the file at `path`, if it showed the points
 * `shown` before. At the start of a session, TensorBoard drops all points from the session's step on.
 */
function shownAfter(path: string, shown: ReadonlyMap<string, number> = new Map()): Map<string, number> {
  const kept = new Map(shown);
  for (const { event } of readEventRecords(readFileSync(path))) {
    if (event.isSessionStart === true) {
      for (const point of kept.keys()) if (Number(point.split('@')[1]) >= event.step) kept.delete(point);
    }
    for (const { tag, value } of event.scalars ?? []) kept.set(`${tag}@${event.step}`, value);
  }
  return kept;
}

describe('TensorboardWriter', () => {
  it('has curves of the loads of experts, and none of other events', () => {
    const writer = new TensorboardWriter({ directory, ...clock });
    const fields = { layers: ['decoder.layers.4.mlp'], loads: [[1, 3]], dropped: [0.25], entropy: [0.5] };
    writer.event({ type: 'experts', iteration: 7, fields });
    writer.event({ type: 'spike', iteration: 8, fields });
    writer.close();
    expect(Object.fromEntries(points())).toEqual({
      'experts/max_load@7': 1.5,
      'experts/dropped@7': 0.25,
      'experts/entropy@7': 0.5,
      'experts/layer_4/max_load@7': 1.5,
      'experts/layer_4/dropped@7': 0.25,
      'experts/layer_4/entropy@7': 0.5,
    });
  });

  it('writes the bytes that TensorBoard reads', () => {
    const writer = new TensorboardWriter({ directory, ...clock });
    writer.scalar('lm loss', 2.5, 300);
    writer.close();
    // this file was read back once with TensorBoard 2.21's EventAccumulator: one point with step 300 and
    // value 2.5, at time 1700000000.5. The first frame: length, its checksum | wall time | file version |
    // source metadata | checksum of the data
    const first =
      '4200000000000000 79f36eaa 0900002040fc54d941 1a0d627261696e2e4576656e743a32 52280a26' +
      '6d746c2e747261696e65722e6d6574726963732e74656e736f72626f6172645f777269746572 76ef0538';
    const second =
      '1e00000000000000 d9dc1232 0900002040fc54d941 10ac02 2a100a0e 0a076c6d206c6f7373 1500002040 efedbc3d';
    expect(readFileSync(writer.path).toString('hex')).toBe(`${first}${second}`.replaceAll(' ', ''));
  });

  it("has Megatron's tags, over iterations and over samples", () => {
    train([1, 2]);
    expect(Object.fromEntries(points())).toEqual({
      ...tagsAt(1, 4, 1),
      ...tagsAt(2, 8, 0.5),
    });
  });

  it('has the second learning rate where there is one', () => {
    const writer = new TensorboardWriter({ directory, ...clock });
    writer.step({ ...makeMetrics(1), decoupledLearningRate: 0.5 });
    writer.step(makeMetrics(2));
    writer.close();
    const all = points();
    expect(all.get('learning-rate@1')).toBe(0.25);
    expect(all.get('decoupled-learning-rate@1')).toBe(0.5);
    expect(all.get('decoupled-learning-rate vs samples@4')).toBe(0.5);
    expect(all.has('decoupled-learning-rate@2')).toBe(false);
  });

  it("has BERT's losses and the losses on held-out data", () => {
    const writer = new TensorboardWriter({ directory, ...clock });
    writer.step({ ...makeMetrics(1), otherLosses: { sop_loss: 0.5 } });
    writer.validation({ iteration: 1, consumedSamples: 4, loss: 0 });
    writer.validation({ iteration: 2, consumedSamples: 8, loss: 30 });
    const otherLosses = { sop_loss: 2, total_loss: 5 };
    writer.validation({
      iteration: 3,
      consumedSamples: 12,
      loss: 3,
      otherLosses,
      tokenLosses: ['lm_loss'],
    });
    writer.close();
    const all = points();
    expect(all.get('sop loss@1')).toBe(0.5);
    expect(all.get('sop loss vs samples@4')).toBe(0.5);
    expect(all.get('sop loss validation@3')).toBe(2);
    expect(all.get('lm loss validation@3')).toBe(3);
    expect(all.get('total loss validation@3')).toBe(5);
    expect(all.get('lm loss validation ppl vs samples@12')).toBe(Math.fround(Math.exp(3)));
    // e^loss is the perplexity only if the loss is a mean over tokens, not if it is a sum or a loss of
    // samples
    for (const name of ['sop loss', 'total loss']) expect(all.has(`${name} validation ppl@3`)).toBe(false);
    expect(all.get('lm loss validation@1')).toBe(0);
    expect(all.get('lm loss validation ppl@1')).toBe(1);
    expect(all.get('lm loss validation vs samples@4')).toBe(0);
    expect(all.get('lm loss validation ppl vs samples@8')).toBe(Math.fround(Math.exp(20)));
  });

  it('removes on a resume what the resumed run writes again', () => {
    train([1, 2, 3, 4, 5]);
    train([4, 5, 6], { iteration: 3, consumedSamples: 12 });
    const losses = [...points().keys()].filter((point) => point.startsWith('lm loss'));
    expect(losses.filter((point) => !point.includes('vs'))).toEqual(
      [1, 2, 3, 4, 5, 6].map((n) => `lm loss@${n}`),
    );
    expect(losses.filter((point) => point.includes('vs')).sort()).toEqual(
      [4, 8, 12, 16, 20, 24].map((n) => `lm loss vs samples@${n}`).sort(),
    );
    expect(readdirSync(directory)).toHaveLength(2);
  });

  it('makes a TensorBoard drop the steps that it has read and that are trained again', () => {
    let shown = shownAfter(train([1, 2, 3, 4, 5, 6, 7]));
    shown = shownAfter(train([4, 5], { iteration: 3, consumedSamples: 12 }), shown);
    expect(shown).toEqual(points());
    shown = shownAfter(train([6], { iteration: 5, consumedSamples: 20 }), shown);
    expect(shown).toEqual(points());
    for (const n of [1, 2, 3, 4, 5, 6]) {
      expect(shown.get(`lm loss@${n}`)).toBe(Math.fround(1 / n));
      expect(shown.get(`lm loss vs samples@${4 * n}`)).toBe(Math.fround(1 / n));
    }
    expect([...shown.keys()].filter((point) => point.startsWith('lm loss'))).toHaveLength(12);
  });

  it('has each point once where a resume was killed before it had cut the older files', () => {
    const first = train([1, 2, 3, 4, 5]);
    const before = readFileSync(first);
    train([], { iteration: 3, consumedSamples: 12 });
    writeFileSync(first, before);
    train([4], { iteration: 3, consumedSamples: 12 });
    // fails if a point occurs twice
    expect([...points().keys()].filter((point) => point.startsWith('lm loss vs'))).toHaveLength(4);
  });

  it('leaves files of another run in the same folder alone', () => {
    const other = new TensorboardWriter({ directory, ...clock, run: 'other' });
    other.step(makeMetrics(9));
    other.close();
    const file = readFileSync(other.path);
    train([1]);
    train([2], { iteration: 1, consumedSamples: 4 });
    expect(readFileSync(other.path)).toEqual(file);
  });

  it('removes a record that a killed run left half written', () => {
    const path = train([1, 2]);
    writeFileSync(path, readFileSync(path).subarray(0, -7));
    train([3], { iteration: 2, consumedSamples: 8 });
    expect(points().get('lm loss@3')).toBe(Math.fround(1 / 3));
    expect([...readEventRecords(readFileSync(path))].at(-1)?.end).toBe(readFileSync(path).length);
  });

  it('leaves files of other programs alone', () => {
    const path = join(directory, 'events.out.tfevents.0000000001.other');
    const foreign = Buffer.concat([
      encodeEventRecord({ wallTime: 1, step: 0, fileVersion: 'brain.Event:2' }),
      encodeEventRecord({ wallTime: 1, step: 99, scalars: [{ tag: 'x', value: 1 }] }),
    ]);
    writeFileSync(path, foreign);
    train([2], { iteration: 1, consumedSamples: 4 });
    expect(readFileSync(path)).toEqual(foreign);
  });

  it('never writes into an existing file', () => {
    expect(new Set([train([1]), train([2]), train([3])]).size).toBe(3);
  });

  it('closes once and then refuses', () => {
    const writer = new TensorboardWriter({ directory, ...clock });
    writer.close();
    writer.close();
    expect(() => writer.scalar('x', 1, 1)).toThrow(
      expect.objectContaining({ code: 'MTL_TENSORBOARD_CLOSED' }),
    );
  });
});

function tagsAt(iteration: number, samples: number, loss: number): Record<string, number> {
  const both = { 'learning-rate': 0.25, 'batch-size': 4, 'lm loss': loss, 'loss-scale': 1, 'grad-norm': 0.5 };
  const timed = {
    'iteration-time': 2,
    throughput: 0.125,
    'tokens-per-second': 32,
    'mem-max-allocated-bytes': 1024,
  };
  return Object.fromEntries([
    ...Object.entries({ ...both, ...timed }).map(([tag, value]) => [`${tag}@${iteration}`, value]),
    ...Object.entries(both).map(([tag, value]) => [`${tag} vs samples@${samples}`, value]),
  ]);
}

describe('event records', () => {
  const events = fc.record({
    wallTime: fc.double({ min: 0, max: 4e9, noNaN: true }),
    step: fc.nat(Number.MAX_SAFE_INTEGER),
    scalars: fc.array(fc.record({ tag: fc.string({ minLength: 1 }), value: fc.float() }), { minLength: 1 }),
  });

  it('come back as they were written', () => {
    fc.assert(
      fc.property(fc.array(events), (written) => {
        const file = Buffer.concat(written.map((event) => encodeEventRecord(event)));
        expect([...readEventRecords(file)].map(({ event }) => event)).toEqual(written);
      }),
    );
  });

  it('are read up to the first damage and no further', () => {
    fc.assert(
      fc.property(
        fc.array(events, { minLength: 1, maxLength: 4 }),
        fc.nat(),
        fc.nat(7),
        (written, where, bit) => {
          const records = written.map((event) => encodeEventRecord(event));
          const file = Buffer.concat(records);
          const position = where % file.length;
          file[position]! ^= 1 << bit;
          let whole = 0;
          for (let end = records[0]!.length; end <= position; end += records[whole]!.length) whole += 1;
          expect([...readEventRecords(file)]).toHaveLength(whole);
        },
      ),
    );
  });
});
