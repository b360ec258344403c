import { PythonFloat } from '@mtl/chat-templates';
import { DataError, UsageError } from '@mtl/errors';
import type { NumberedBatch, TokenBatch } from '@mtl/layout';
import { sharedFloat64Array, sharedInt16Array } from '../files/typed-arrays.js';
import { type PythonJsonValue, pythonJson } from '../python/json.js';
import { normalizeWeights } from '../python/numbers.js';
import type { IndexCacheEvent, SplitName } from './dataset-part.js';
import { cachedIndex } from './index-cache.js';
import {
  assembleBatch,
  type SampleDataset,
  type SampleDatasetDescription,
  type SampleDocuments,
} from './sample-dataset.js';

/** A blend's description, which can be sent to worker threads. */
export interface BlendedDatasetDescription extends BlendIndices {
  readonly kind: 'blended';
  readonly datasets: readonly SampleDatasetDescription[];
}

/** The datasets to blend, and their weights. */
interface BlendedDatasetOptions<Batch extends NumberedBatch = TokenBatch> {
  readonly datasets: readonly SampleDataset<Batch>[];
  /**
   * The identifiers of the datasets (see `gptDatasetIdentifiers` and `bertDatasetIdentifiers`), whose md5 is
   * part of the cache files' names.
   */
  readonly identifiers: readonly PythonJsonValue[];
  /** The weights of the datasets. If `size` is undefined, they must be the datasets' lengths. */
  readonly weights: readonly number[];
  /**
   * How many samples the blend has. If it is undefined, the blend contains every sample of every dataset
   * exactly once.
   */
  readonly size: number | undefined;
  readonly split: SplitName;
  /** The directory for cached indices. If it is undefined, indices are built each time. */
  readonly cacheDirectory?: string | undefined;
  readonly onCacheEvent?: ((event: IndexCacheEvent) => void) | undefined;
}

/**
 * Megatron's BlendedDataset: draws samples from several datasets in proportion to their weights,
 * deterministically.
 */
export class BlendedDataset<Batch extends NumberedBatch = TokenBatch> implements SampleDataset<Batch> {
  readonly description: BlendedDatasetDescription;
  /** Returns a sample's length. Undefined unless all datasets can measure lengths. */
  readonly measureLength: ((sample: number) => number) | undefined;
  /** Returns a sample's documents. Absent unless all datasets can list documents. */
  readonly listDocuments?: (sample: number) => SampleDocuments;
  readonly #datasets: readonly SampleDataset<Batch>[];

  /**
   * @param datasets the opened datasets that `description.datasets` describes. Closing the blend closes them
   */
  constructor(description: BlendedDatasetDescription, datasets: readonly SampleDataset<Batch>[]) {
    this.description = description;
    this.#datasets = datasets;
    this.measureLength = this.#datasets.every((dataset) => dataset.measureLength !== undefined)
      ? (sample) => {
          const { dataset, number } = this.#locateSample(sample);
          return dataset.measureLength!(number);
        }
      : undefined;
    if (datasets.every((dataset) => dataset.listDocuments !== undefined)) {
      this.listDocuments = (sample) => {
        const { dataset, number } = this.#locateSample(sample);
        return dataset.listDocuments!(number);
      };
    }
  }

  get length(): number {
    return this.description.datasetIndex.length;
  }
  get sequenceLength(): number {
    return this.#datasets[0]!.sequenceLength;
  }
  get datasets(): readonly SampleDataset<Batch>[] {
    return this.#datasets;
  }

  createBatch(batchSize: number): Batch {
    return this.#datasets[0]!.createBatch(batchSize);
  }

  finishBatch(batch: Batch): Batch {
    return this.#datasets[0]!.finishBatch(batch);
  }

  sample(sample: number): Batch {
    return assembleBatch(this, [sample]);
  }

  fillRow({ sample, batch, row }: { sample: number; batch: Batch; row: number }): void {
    const { dataset, number } = this.#locateSample(sample);
    dataset.fillRow({ sample: number, batch, row });
    // the batch must contain the sample's index in the blend, and not its index in the dataset
    batch.sampleNumbers[row] = sample;
  }

  close(): void {
    for (const dataset of this.#datasets) dataset.close();
  }

  /** Returns a sample's dataset, and the sample's index in this dataset. */
  #locateSample(sample: number): { readonly dataset: SampleDataset<Batch>; readonly number: number } {
    const { datasetIndex, datasetSampleIndex } = this.description;
    const dataset = datasetIndex[sample];
    if (dataset === undefined) {
      throw new UsageError('MTL_DATA_OUT_OF_RANGE', `sample ${sample} does not exist`, {
        expected: `0 to ${this.length - 1}`,
      });
    }
    return { dataset: this.#datasets[dataset]!, number: datasetSampleIndex[sample]! };
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Builds a blend's indices, or loads them from the cache. Throws if a dataset has fewer samples than the
 * blend needs from it.
 */
export function openBlendedDataset<Batch extends NumberedBatch = TokenBatch>(
  options: BlendedDatasetOptions<Batch>,
): BlendedDataset<Batch> {
  const { datasets, identifiers, weights, size, split, cacheDirectory, onCacheEvent } = options;
  checkBlend(options);
  const normalized = size === undefined ? weights : normalizeWeights(weights);
  const length = size ?? weights.reduce((sum, count) => sum + count, 0);
  const arrays = cachedIndex({
    directory: cacheDirectory,
    className: 'BlendedDataset',
    split,
    description: pythonJson({
      class: 'BlendedDataset',
      datasets: identifiers,
      split,
      weights: size === undefined ? [...weights] : normalized.map((weight) => new PythonFloat(weight)),
      size: size ?? null,
    }),
    arrays: {
      dataset_index: { descr: '<i2', shape: [length] },
      dataset_sample_index: { descr: '<i8', shape: [length] },
    },
    build: () => {
      const built =
        size === undefined
          ? buildExhaustiveBlendIndices({ sizes: weights })
          : buildBlendIndices({ weights: normalized, size });
      return { dataset_index: built.datasetIndex, dataset_sample_index: built.datasetSampleIndex };
    },
    check: (loaded) => checkBlendIndices(loaded.dataset_index, loaded.dataset_sample_index, datasets.length),
    onEvent: onCacheEvent,
  });
  checkOversampling({ datasetIndex: arrays.dataset_index, datasets, identifiers });
  const description: BlendedDatasetDescription = {
    kind: 'blended',
    datasets: datasets.map((dataset) => dataset.description),
    datasetIndex: arrays.dataset_index,
    datasetSampleIndex: arrays.dataset_sample_index,
  };
  return new BlendedDataset(description, datasets);
}

function checkBlend(options: BlendedDatasetOptions<NumberedBatch>): void {
  const { datasets, identifiers, weights, size } = options;
  if (datasets.length === 0 || weights.length !== datasets.length || identifiers.length !== datasets.length) {
    throw new UsageError(
      'MTL_DATA_BLEND',
      `a blend of ${datasets.length} datasets got ${weights.length} weights and ${identifiers.length} identifiers`,
      { expected: 'one weight and one identifier for each dataset, and at least one dataset' },
    );
  }
  const usable =
    weights.every((weight) => Number.isFinite(weight) && weight >= 0) && weights.some((w) => w > 0);
  if (!usable || (size === undefined && !weights.every(Number.isInteger))) {
    throw new DataError('MTL_DATA_BLEND_WEIGHTS', `the weights ${weights.join(', ')} are not usable`, {
      expected: 'non-negative numbers, not all zero',
    });
  }
  const lengths = new Set(datasets.map((dataset) => dataset.sequenceLength));
  if (lengths.size > 1) {
    throw new UsageError('MTL_DATA_BLEND', `sequence lengths ${[...lengths].join(', ')} cannot be blended`);
  }
}

function checkBlendIndices(
  datasetIndex: Int16Array,
  datasetSampleIndex: Float64Array,
  numDatasets: number,
): string | undefined {
  const taken = new Float64Array(numDatasets);
  for (let i = 0; i < datasetIndex.length; i++) {
    const dataset = datasetIndex[i]!;
    if (dataset < 0 || dataset >= numDatasets || datasetSampleIndex[i] !== taken[dataset]) {
      return `entry ${i} does not follow from those before it`;
    }
    taken[dataset]!++;
  }
  return undefined;
}

function checkOversampling(options: {
  datasetIndex: Int16Array;
  datasets: readonly SampleDataset<NumberedBatch>[];
  identifiers: readonly PythonJsonValue[];
}): void {
  const { datasetIndex, datasets, identifiers } = options;
  const asked = new Float64Array(datasets.length);
  for (const dataset of datasetIndex) asked[dataset]!++;
  for (const [i, dataset] of datasets.entries()) {
    if (asked[i]! <= dataset.length) continue;
    const identifier = identifiers[i] as { dataset_path?: string } | null;
    const name = identifier?.dataset_path ?? `dataset ${i}`;
    throw new DataError('MTL_DATA_BLEND_OVERSAMPLED', `the blend asks ${name} for ${asked[i]} samples`, {
      expected: `at most ${dataset.length}, the number of samples built for it`,
      remedy:
        'raise the sample surplus of the blend a little (default 0.005), or lower the weight of this dataset',
    });
  }
}

/** For each sample of a blend, the index of its dataset, and the index of the sample in this dataset. */
interface BlendIndices {
  /** int16 [size]: the index of the dataset. */
  readonly datasetIndex: Int16Array;
  /**
   * float64 [size]: the sample's index in its dataset. The values are exact integers, which the cache file
   * stores as int64.
   */
  readonly datasetSampleIndex: Float64Array;
}

/**
 * Builds Megatron's greedy blend. Sample k is drawn from the dataset that is furthest behind its weight,
 * which is the argmax of `weight * max(k, 1) - taken`. If datasets are equally far behind, the first one is
 * chosen.
 */
export function buildBlendIndices({
  weights,
  size,
}: {
  weights: readonly number[];
  size: number;
}): BlendIndices {
  return fillGreedily({ weights, size, limits: weights.map(() => Number.POSITIVE_INFINITY) });
}

/**
 * Builds a blend by the same rule as `buildBlendIndices`, with weights proportional to `sizes`. Each sample
 * of each dataset occurs exactly once.
 */
export function buildExhaustiveBlendIndices({ sizes }: { sizes: readonly number[] }): BlendIndices {
  const size = sizes.reduce((sum, count) => sum + count, 0);
  return fillGreedily({ weights: sizes.map((count) => count / size), size, limits: sizes });
}

function fillGreedily(options: {
  weights: readonly number[];
  size: number;
  limits: readonly number[];
}): BlendIndices {
  const { weights, size, limits } = options;
  if (weights.length === 0 || weights.length > 32767) {
    throw new UsageError('MTL_DATA_BLEND', `a blend of ${weights.length} datasets`, {
      expected: '1 to 32767 datasets',
    });
  }
  const datasetIndex = sharedInt16Array(size);
  const datasetSampleIndex = sharedFloat64Array(size);
  const taken = new Float64Array(weights.length);
  const weight = Float64Array.from(weights);
  for (let sample = 0; sample < size; sample++) {
    const scale = Math.max(sample, 1);
    let chosen = -1;
    let largest = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < weight.length; i++) {
      const error = weight[i]! * scale - taken[i]!;
      if (error > largest && taken[i]! < limits[i]!) {
        chosen = i;
        largest = error;
      }
    }
    datasetIndex[sample] = chosen;
    datasetSampleIndex[sample] = taken[chosen]!;
    taken[chosen]!++;
  }
  return { datasetIndex, datasetSampleIndex };
}
