import { flagsOfOptions, type RunOptions, validateConfiguration } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { loadProfile } from '@mtl/cost-model';
import { type LayoutSearch, planRun, searchLayouts } from '../../src/index.js';
import { withDeviceOfProfile } from '../../src/internal/index.js';

/** A model of a paper, and the layout that it was published with. */
export interface PaperModel {
  readonly name: string;
  readonly profile: string;
  readonly numProcesses: number;
  /** Model, batch and all other fixed options of the search. */
  readonly options: RunOptions;
  /** Tensor, pipeline and data size. */
  readonly mesh: readonly [t: number, p: number, d: number];
  readonly chunks: number;
  readonly microBatch: number;
  /** Other options of the published layout. */
  readonly chosen: RunOptions;
}

/** A GPT of the papers. A plan needs neither learning rate nor data. */
export const gptOptions = (layers: number, hidden: number, heads: number, batch: number): RunOptions => ({
  preset: 'none',
  model: {
    numLayers: layers,
    hiddenSize: hidden,
    numAttentionHeads: heads,
    maxPositionEmbeddings: 2048,
  },
  data: { dataPath: ['bundled'], sequenceLength: 2048, tokenizerType: 'NullTokenizer', vocabSize: 51_199 },
  training: { bf16: true, globalBatchSize: batch, trainIterations: 1000 },
  optimizer: { maxLearningRate: 1 },
});

/** All rows of table 1 recompute whole layers. */
const full: RunOptions = { training: { recomputeGranularity: 'full', recomputeMethod: 'uniform' } };

type Row = readonly [
  name: string,
  sizes: readonly [layers: number, hidden: number, heads: number, batch: number],
  layout: readonly [t: number, p: number, d: number, v: number, b: number],
];

function paperModels(
  rows: readonly Row[],
  options: {
    readonly year: number;
    readonly profile: string;
    readonly fixed: RunOptions;
    readonly chosen: RunOptions;
  },
): PaperModel[] {
  const { year, profile, fixed, chosen } = options;
  return rows.map(([name, sizes, [t, p, d, v, b]]) => ({
    name: `${name} of ${year}`,
    profile,
    numProcesses: t * p * d,
    options: mergeOptions(gptOptions(...sizes), fixed),
    mesh: [t, p, d],
    chunks: v,
    microBatch: b,
    chosen,
  }));
}

/** Korthikanti et al. 2022, table 5, and Narayanan et al. 2021, table 1. */
export const papers: readonly PaperModel[] = [
  ...paperModels(
    [
      ['22 B', [48, 6144, 64, 4], [8, 1, 1, 1, 4]],
      ['175 B', [96, 12_288, 96, 64], [8, 8, 1, 3, 1]],
      ['530 B', [105, 20_480, 128, 280], [8, 35, 1, 3, 1]],
      ['1 T', [128, 25_600, 160, 512], [8, 64, 1, 1, 1]],
    ],
    {
      year: 2022,
      profile: 'a100-80gb-megatron',
      fixed: {},
      chosen: { layout: { sequenceParallel: true }, training: { recomputeGranularity: 'selective' } },
    },
  ),
  ...paperModels(
    [
      ['1.7 B', [24, 2304, 24, 512], [1, 1, 32, 1, 16]],
      ['3.6 B', [30, 3072, 32, 512], [2, 1, 32, 1, 16]],
      ['7.5 B', [36, 4096, 32, 512], [4, 1, 32, 1, 16]],
      ['18.4 B', [40, 6144, 48, 1024], [8, 1, 32, 1, 8]],
      ['39.1 B', [48, 8192, 64, 1536], [8, 2, 32, 1, 4]],
      ['76.1 B', [60, 10_240, 80, 1792], [8, 4, 32, 3, 2]],
      ['145.6 B', [80, 12_288, 96, 2304], [8, 8, 24, 2, 2]],
      ['310.1 B', [96, 16_384, 128, 2160], [8, 16, 15, 2, 1]],
      ['529.6 B', [105, 20_480, 128, 2520], [8, 35, 9, 3, 1]],
      ['1 T', [128, 25_600, 160, 3072], [8, 64, 6, 1, 1]],
    ],
    { year: 2021, profile: 'a100-80gb-megatron-2021', fixed: full, chosen: {} },
  ),
];

/** A search for the layouts of a paper's model. */
export interface PaperSearch extends LayoutSearch {
  /** Predicted seconds of the published layout. */
  readonly published: number;
  /** Slowdown of the published layout over the best layout, as a fraction. */
  readonly distance: number;
  /** Rank of the published tensor, pipeline and data size among the layouts, from 1; 0 if it is absent. */
  readonly place: number;
}

/** The parts of the published layout that a search is given, in addition to the model. */
export type Given = 'nothing' | 'micro-batch' | 'micro-batch and chunks';

export async function searchPaper(
  { profile: name, numProcesses, options: model, mesh, chunks, microBatch, chosen }: PaperModel,
  given: Given = 'nothing',
): Promise<PaperSearch> {
  const profile = loadProfile(name);
  const [t, p] = mesh;
  const ofMicroBatch = { training: { microBatchSize: microBatch } };
  const ofChunks = { layout: { numVirtualStagesPerPipelineRank: chunks } };
  const ofMesh = { layout: { tensorModelParallelSize: t, pipelineModelParallelSize: p } };
  const options = mergeOptions(
    model,
    given === 'nothing' ? {} : ofMicroBatch,
    given === 'micro-batch and chunks' ? ofChunks : {},
  );
  const published = flagsOfOptions(mergeOptions(model, ofMesh, ofMicroBatch, ofChunks, chosen));
  const configuration = validateConfiguration(withDeviceOfProfile(published, profile), {
    worldSize: numProcesses,
  });
  const { iterationSeconds } = await planRun(configuration, { profile });
  const search = await searchLayouts({ flags: flagsOfOptions(options), numProcesses, profile });
  const meshes = search.layouts.map(({ candidate: { tensor, pipeline, data } }) =>
    [tensor, pipeline, data].join(' '),
  );
  return {
    ...search,
    published: iterationSeconds,
    distance: iterationSeconds / search.layouts[0]!.plan.iterationSeconds - 1,
    place: meshes.indexOf(mesh.join(' ')) + 1,
  };
}
