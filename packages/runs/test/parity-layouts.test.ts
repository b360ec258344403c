import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { describe, expect, it } from 'vitest';
import { allLayouts, faults, layouts, type ParityLayout, traitsOfLayers } from '../parity/layouts.mjs';

/** Returns the value of every choice that a layout makes. */
function listChoices({ sizes, traits }: ParityLayout): readonly string[] {
  const chosen = (name: string): string => (traits.includes(name) ? name : `no ${name}`);
  const recomputation = traits.find((trait) => trait.endsWith('recomputation')) ?? 'no recomputation';
  return [JSON.stringify(sizes), chosen('sequence parallel'), chosen('distributed optimizer'), recomputation];
}

/** Returns every pair of values that occur together in a layout. */
function listPairs(layout: ParityLayout): readonly string[] {
  const choices = listChoices(layout);
  return choices.flatMap((one, index) => choices.slice(index + 1).map((other) => `${one} with ${other}`));
}

/**
 * Returns whether layers have windows, sinks or rotations of their own: these layouts have a separate list.
 */
const hasOwnLayers = ({ traits }: ParityLayout): boolean =>
  traits.some((trait) => traitsOfLayers.includes(trait));

const isFullySharded = ({ traits }: ParityLayout): boolean => traits.includes('fully sharded');
/** Returns whether ranks keep slices of gradients: these layouts have separate lists. */
const hasSlicedGradients = (layout: ParityLayout): boolean =>
  isFullySharded(layout) || layout.traits.includes('divided gradients');

/** Returns whether states are divided within instances: these layouts have a separate list. */
const isHybrid = ({ traits }: ParityLayout): boolean => traits.includes('two instances');

/** Returns whether layouts are listed apart from the ones that are crossed. */
const isListedApart = (layout: ParityLayout): boolean =>
  hasOwnLayers(layout) || hasSlicedGradients(layout) || isHybrid(layout);

// layouts of tensor and data parallelism; pipelines have separate lists
const isPlanar = ({ model, sizes }: ParityLayout): boolean =>
  model === 'gpt' &&
  Object.keys(sizes).length > 0 &&
  Object.keys(sizes).every((axis) => axis === 'tp' || axis === 'dp');
const ofPrecision = (all: readonly ParityLayout[], precision: string): ParityLayout[] =>
  all.filter((layout) => isPlanar(layout) && !isListedApart(layout) && layout.precision === precision);

/** Layouts with context parallelism have a separate list, too. */
const ofWholeSequences = allLayouts.filter(
  (layout) => layout.sizes.cp === undefined && !isListedApart(layout),
);

describe('the layouts of npm run dev -- parity', () => {
  it('are crossed completely with --all', () => {
    // meshes: two of tensor parallelism and two of data parallelism, with 2 x 3 combinations each, and two of
    // both, with 2 x 2 x 3
    const numEach = 4 * 6 + 2 * 12;
    expect(ofPrecision(allLayouts, 'fp32').length).toBe(numEach);
    expect(ofPrecision(allLayouts, 'bf16').length).toBe(numEach);
    expect(new Set(allLayouts.map(({ name }) => name)).size).toBe(allLayouts.length);
  });

  it('are crossed for BERT as for GPT', () => {
    const of = (wanted: string) =>
      ofWholeSequences.filter(({ model }) => model === wanted).map(({ options }) => options);
    const asBert = { model: { kind: 'bert' } } as const;
    expect(of('bert')).toEqual(of('gpt').map((options) => mergeOptions(options, asBert)));
  });

  it('are crossed for a Llama as for GPT, with blocks of its own', () => {
    const of = (wanted: string) => ofWholeSequences.filter(({ model }) => model === wanted);
    expect(of('llama').map(({ sizes, traits, precision }) => ({ sizes, traits, precision }))).toEqual(
      of('gpt').map(({ sizes, traits, precision }) => ({ sizes, traits, precision })),
    );
    const blocks = { swiglu: true, normalization: 'RMSNorm', untieEmbeddingsAndOutputWeights: true };
    for (const [index, { options }] of of('llama').entries()) {
      expect(options.model).toMatchObject(blocks);
      expect({ ...options, model: undefined }).toEqual({ ...of('gpt')[index]!.options, model: undefined });
    }
  });

  it('cut a Llama along every axis in CI, in both precisions, and inject faults along every axis', () => {
    const ofLlama = layouts.filter(({ model, sizes }) => model === 'llama' && sizes.cp === undefined);
    const listAxes = (some: readonly ParityLayout[]) =>
      new Set(some.flatMap(({ sizes }) => Object.keys(sizes)));
    expect(listAxes(ofLlama)).toEqual(new Set(['tp', 'dp', 'pp']));
    expect(new Set(ofLlama.map(({ precision }) => precision))).toEqual(new Set(['fp32', 'bf16']));
    expect(listAxes(faults.filter(({ model }) => model === 'llama'))).toEqual(
      new Set(['tp', 'dp', 'pp', 'cp']),
    );
  });

  it('cut BERT along every axis in CI, with layer norm in both places and in both precisions', () => {
    const ofBert = layouts.filter(({ model }) => model === 'bert');
    const axes = new Set(ofBert.flatMap(({ sizes }) => Object.keys(sizes)));
    expect(axes).toEqual(new Set(['tp', 'dp', 'pp', 'cp']));
    const after = ofBert.filter(({ traits }) => traits.includes('layer norm after sublayers'));
    expect(after.length).toBeGreaterThan(0);
    expect(after.length).toBeLessThan(ofBert.length);
    expect(new Set(ofBert.map(({ precision }) => precision))).toEqual(new Set(['fp32', 'bf16']));
    const broken = faults.filter(({ model }) => model === 'bert');
    expect(new Set(broken.flatMap(({ sizes }) => Object.keys(sizes)))).toEqual(axes);
  });

  it('divide every store into instances along every axis, for every model', () => {
    const hybrid = layouts.filter(isHybrid);
    expect(new Set(hybrid.flatMap(({ sizes }) => Object.keys(sizes)))).toEqual(
      new Set(['dp', 'tp', 'cp', 'pp', 'ep']),
    );
    expect(new Set(hybrid.map(({ model }) => model))).toEqual(new Set(layouts.map(({ model }) => model)));
    for (const store of ['distributed optimizer', 'divided gradients', 'fully sharded']) {
      expect(hybrid.some(({ traits }) => traits.includes(store))).toBe(true);
    }
    const wrong = faults.filter(isHybrid).map(({ fault }) => fault);
    expect(wrong).toEqual(['drop-instance-sums', 'count-instances']);
  });

  it('shard parameters along with every axis, with every recomputation and model', () => {
    const sharded = layouts.filter(isFullySharded);
    const divided = layouts.filter((layout) => hasSlicedGradients(layout) && !isFullySharded(layout));
    expect(new Set(divided.flatMap(({ sizes }) => Object.keys(sizes)))).toEqual(
      new Set(['dp', 'tp', 'cp', 'pp', 'ep']),
    );
    const collect = (list: (layout: ParityLayout) => readonly string[]) => new Set(sharded.flatMap(list));
    expect(collect(({ sizes }) => Object.keys(sizes))).toEqual(new Set(['dp', 'tp', 'cp', 'pp', 'ep']));
    expect(collect(({ model }) => [model])).toEqual(
      new Set(['gpt', 'llama', 'bert', 'qwen-moe', 'deepseek']),
    );
    expect(collect(({ precision }) => [precision])).toEqual(new Set(['fp32', 'bf16']));
    const traits = collect((layout) => layout.traits);
    const wanted = [
      ...['full recomputation', 'selective recomputation', 'recomputed pairs of layers'],
      ...['1f1b', 'zb-h1', 'zb-h2', 'zb-v', 'micro-batches of 2'],
    ];
    expect(wanted.filter((trait) => !traits.has(trait))).toEqual([]);
  });

  it('share sequences along with every axis, in every way, with masks of all kinds', () => {
    const shared = layouts.filter(({ sizes }) => sizes.cp !== undefined);
    expect(shared.length).toBeGreaterThanOrEqual(24);
    expect(new Set(shared.flatMap(({ sizes }) => Object.keys(sizes)))).toEqual(
      new Set(['tp', 'cp', 'dp', 'pp', 'ep', 'etp']),
    );
    for (const size of [2, 4]) {
      const ofSize = shared.filter(({ sizes }) => sizes.cp === size);
      const traits = new Set(ofSize.flatMap((each) => each.traits));
      const wanted = ['keys by all-gather', 'heads exchanged', 'documents', 'a window of 9'];
      expect(wanted.filter((trait) => !traits.has(trait))).toEqual([]);
      expect(ofSize.some(({ options }) => options.layout?.cpCommType === undefined)).toBe(true);
    }
    expect(new Set(shared.map(({ precision }) => precision))).toEqual(new Set(['fp32', 'bf16']));
  });

  it('spread experts along every axis, in every way, and have mistakes of theirs', () => {
    const isSparse = ({ model }: ParityLayout): boolean => model === 'qwen-moe' || model === 'deepseek';
    const sparse = layouts.filter(isSparse);
    expect(sparse.length).toBeGreaterThanOrEqual(24);
    for (const model of ['qwen-moe', 'deepseek']) {
      const ofModel = sparse.filter((each) => each.model === model);
      const axes = new Set(ofModel.flatMap(({ sizes }) => Object.keys(sizes)));
      expect(axes, model).toEqual(new Set(['tp', 'cp', 'dp', 'pp', 'ep', 'etp']));
      const traits = new Set(ofModel.flatMap((each) => each.traits));
      const wanted = ['tokens by all-gather', 'micro-batches of 2', 'recomputed experts'];
      const all = [...wanted, 'sequence parallel', 'distributed optimizer', 'full recomputation'];
      expect(
        all.filter((trait) => !traits.has(trait)),
        model,
      ).toEqual([]);
    }
    // layouts with tensor parallelism but without sequence parallelism, in which ranks divide the rows
    expect(
      sparse.some(({ sizes, traits }) => sizes.tp !== undefined && !traits.includes('sequence parallel')),
    ).toBe(true);
    const wrong = faults.filter(isSparse).map(({ fault }) => fault);
    const own = [
      'drop-expert-counts',
      'move-biases-twice',
      'average-expert-gradients',
      'skip-shared-gate-sum',
    ];
    expect(own.filter((fault) => !wrong.includes(fault))).toEqual([]);
  });

  it('give layers windows, sinks and rotations of their own along every axis, in every way', () => {
    const some = layouts.filter(hasOwnLayers);
    expect(traitsOfLayers.filter((trait) => !some.some(({ traits }) => traits.includes(trait)))).toEqual([]);
    const axes = new Set(some.flatMap(({ sizes }) => Object.keys(sizes)));
    expect(axes).toEqual(new Set(['tp', 'cp', 'dp', 'pp', 'ep']));
    const ways = ['keys by all-gather', 'heads exchanged', 'heads exchanged in pairs', 'documents'];
    const shared = some.filter(({ sizes }) => sizes.cp !== undefined);
    for (const trait of ['trained sinks', 'a window in every other layer']) {
      const ofTrait = shared.filter(({ traits }) => traits.includes(trait));
      const met = new Set(ofTrait.flatMap(({ traits }) => traits));
      const missing = ways.filter((way) => !met.has(way));
      // the ring alone has no name; heads exchanged in pairs see whole windows, as heads exchanged do
      expect(
        missing.filter((way) => way !== 'heads exchanged in pairs'),
        trait,
      ).toEqual([]);
      expect(ofTrait.some(({ options }) => options.layout?.cpCommType === undefined)).toBe(true);
    }
    const wrong = faults.map(({ fault }) => fault);
    expect(wrong).toEqual(expect.arrayContaining(['count-layers-of-stages', 'drop-sink-gradients']));
  });

  it('meet in CI in all pairs in float32', () => {
    const met = new Set(ofPrecision(layouts, 'fp32').flatMap(listPairs));
    const wanted = new Set(ofPrecision(allLayouts, 'fp32').flatMap(listPairs));
    expect([...wanted].filter((pair) => !met.has(pair))).toEqual([]);
  });

  it('are all there in CI in bf16, and their traits meet in all pairs', () => {
    const traitPairs = (layout: ParityLayout): readonly string[] => [
      listChoices(layout)[0]!,
      ...listPairs(layout).filter((pair) => !pair.startsWith('{')),
    ];
    const met = new Set(ofPrecision(layouts, 'bf16').flatMap(traitPairs));
    const wanted = new Set(ofPrecision(allLayouts, 'bf16').flatMap(traitPairs));
    expect([...wanted].filter((pair) => !met.has(pair))).toEqual([]);
  });

  it('run every schedule of a pipeline, on every mesh of one, in CI', () => {
    const inPipelines = layouts.filter(
      ({ model, sizes, precision }) => model === 'gpt' && sizes.pp !== undefined && precision === 'fp32',
    );
    const wanted = [
      ...['1f1b', 'gpipe', 'interleaved of 2 chunks', 'interleaved of 4 chunks', 'breadth-first of 2 chunks'],
      ...['zb-h1', 'zb-h2', 'zb-v', 'balanced layers', 'full recomputation', 'sequence parallel'],
      'distributed optimizer',
    ];
    const met = new Set(inPipelines.flatMap(({ traits }) => traits));
    expect(wanted.filter((trait) => !met.has(trait))).toEqual([]);
    const meshes = inPipelines.map(({ sizes: { pp, tp = 1, dp = 1 } }) => `${pp} x ${tp} x ${dp}`);
    const pipelineTensorData = ['2 x 2 x 2', '4 x 1 x 2', '4 x 2 x 1', '2 x 1 x 4', '8 x 1 x 1'];
    expect(pipelineTensorData.filter((mesh) => !meshes.includes(mesh))).toEqual([]);
    expect(layouts.some(({ sizes, precision }) => sizes.pp !== undefined && precision === 'bf16')).toBe(true);
  });

  it('have mistakes under every kind of schedule', () => {
    const kinds = ['gpipe', '1f1b', 'interleaved', 'breadth-first', 'zb-h1', 'zb-h2', 'zb-v'];
    const broken = faults.flatMap(({ traits }) => traits);
    expect(kinds.filter((kind) => !broken.some((trait) => trait.startsWith(kind)))).toEqual([]);
  });

  it('are each there once', () => {
    expect(new Set(layouts.map(({ name }) => name)).size).toBe(layouts.length);
  });

  it('have mistakes that turn each of the checks red', () => {
    const noticing = faults.filter(({ precision }) => precision === 'fp32').map(({ noticedBy }) => noticedBy);
    expect(new Set(noticing)).toEqual(new Set(['loss', 'gradientNorm', 'gradients']));
    expect(faults.some(({ precision, noticedBy }) => precision === 'bf16' && noticedBy === 'gradients')).toBe(
      true,
    );
  });
});
