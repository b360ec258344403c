import { ConfigurationError, UsageError } from '@mtl/errors';
import type { NumberedBatch, TokenBatch } from '@mtl/layout';
import type { PythonJsonValue } from '../python/json.js';
import { normalizeWeights } from '../python/numbers.js';
import { openBlendedDataset } from './blended-dataset.js';
import { checkNoWeightAmongPrefixes, type DataBlend } from './data-path.js';
import { type IndexCacheEvent, parseSplit, type SplitName, splitNames } from './dataset-part.js';
import type { SampleDataset } from './sample-dataset.js';

/** The options for a run's datasets, which are the same for all kinds of datasets. */
export interface SplitDatasetsOptions {
  /** The datasets and their weights, from `parseDataPath`. */
  readonly blend: DataBlend;
  /** `--split`: the weights of train, valid and test. Default: "1", which uses all data for training. */
  readonly splitWeights?: string | undefined;
  /** How many samples each split must have. Undefined means one epoch, and 0 no samples. */
  readonly numSamples: Readonly<Record<SplitName, number | undefined>>;
  /**
   * The directory for all cached indices (`--data-cache-path`). Default: next to each dataset. `false`
   * disables the cache.
   */
  readonly dataCachePath?: string | false | undefined;
  /**
   * How many more samples each dataset of a blend gets than its weight requires, as a fraction. Default:
   * 0.005, as in Megatron.
   */
  readonly blendSurplus?: number;
  readonly onCacheEvent?: ((event: IndexCacheEvent) => void) | undefined;
}

/** The splits of a run's data. A split is undefined if it has no data or if no samples are requested. */
export type SplitDatasets<Batch extends NumberedBatch = TokenBatch> = Readonly<
  Record<SplitName, SampleDataset<Batch> | undefined>
>;

/** A dataset, limited to one split. */
interface SplitDatasetOptions {
  readonly prefix: string;
  readonly split: SplitName;
  readonly numSamples: number | undefined;
  readonly cacheDirectory: string | false | undefined;
}

/** How datasets of one kind are opened and how their caches are named. */
interface DatasetKind<Batch extends NumberedBatch> {
  readonly open: (part: SplitDatasetOptions) => SampleDataset<Batch>;
  readonly identifiers: (part: SplitDatasetOptions) => PythonJsonValue;
}

/**
 * Opens the train, valid and test splits of a dataset or a blend. Megatron's rules determine how many samples
 * each split has and how many extra samples a blend draws.
 */
export function buildSplitDatasets<Batch extends NumberedBatch>(
  options: SplitDatasetsOptions,
  kind: DatasetKind<Batch>,
): SplitDatasets<Batch> {
  checkOptions(options);
  const matrix = parseSplit(options.splitWeights ?? '1');
  const build = (split: SplitName): SampleDataset<Batch> | undefined => {
    const unused = matrix[splitNames.indexOf(split)] === undefined || options.numSamples[split] === 0;
    return unused ? undefined : buildSplit({ ...options, split, kind });
  };
  const built: (SampleDataset<Batch> | undefined)[] = [];
  try {
    for (const split of splitNames) built.push(build(split));
  } catch (error) {
    for (const dataset of built) dataset?.close();
    throw error;
  }
  const [train, valid, test] = built;
  return { train, valid, test };
}

/** Throws for values that JavaScript would silently coerce, which would select different datasets. */
function checkOptions({ blend, numSamples }: SplitDatasetsOptions): void {
  const given: unknown = (blend as DataBlend | undefined)?.prefixes;
  if (!Array.isArray(given) || given.length === 0) {
    throw new UsageError('MTL_DATA_PATH', 'the blend names no datasets', {
      expected: 'what parseDataPath gives: { prefixes, weights }',
      remedy: 'pass blend: parseDataPath([prefix])',
    });
  }
  checkNoWeightAmongPrefixes(blend);
  for (const split of splitNames) {
    const count = (numSamples as SplitDatasetsOptions['numSamples'] | undefined)?.[split];
    const isCount = count === undefined || (Number.isSafeInteger(count) && count >= 0);
    if (typeof numSamples === 'object' && numSamples !== null && isCount) continue;
    throw new UsageError('MTL_DATA_NUM_SAMPLES', `numSamples.${split} is ${count ?? 'missing'}`, {
      expected: 'a whole number of 0 or more, or undefined for one epoch',
      remedy: 'pass numSamples: { train: 1000, valid: 100, test: 0 }',
    });
  }
}

function buildSplit<Batch extends NumberedBatch>(
  options: SplitDatasetsOptions & { split: SplitName; kind: DatasetKind<Batch> },
): SampleDataset<Batch> {
  const { blend, numSamples, dataCachePath, blendSurplus = 0.005, split, kind } = options;
  const wanted = numSamples[split];
  const ofPrefix = (prefix: string, samples: number | undefined): SplitDatasetOptions => ({
    prefix,
    split,
    numSamples: samples,
    cacheDirectory: dataCachePath,
  });
  if (blend.prefixes.length === 1 && blend.weights === undefined) {
    return kind.open(ofPrefix(blend.prefixes[0]!, wanted));
  }
  const weights = blend.weights === undefined ? undefined : normalizeWeights(blend.weights);
  if (weights !== undefined && wanted === undefined) {
    throw new ConfigurationError('MTL_DATA_PATH', `a weighted blend needs a number of samples for ${split}`, {
      remedy: 'pass the number of samples to draw, or leave the weights out to use every sample once',
    });
  }
  const perDataset = blend.prefixes.map((prefix, i) => {
    // If the user gives no weights, every dataset gives exactly one epoch.
    if (weights === undefined || wanted === undefined) return ofPrefix(prefix, undefined);
    return ofPrefix(prefix, Math.ceil(Math.ceil(wanted * weights[i]!) * (1 + blendSurplus)));
  });
  const datasets: SampleDataset<Batch>[] = [];
  try {
    for (const part of perDataset) datasets.push(kind.open(part));
    const lengths = datasets.map((dataset) => dataset.length);
    return openBlendedDataset({
      datasets,
      identifiers: perDataset.map(kind.identifiers),
      weights: weights ?? lengths,
      size: blendSize({ weights, wanted, lengths }),
      split,
      cacheDirectory: dataCachePath === false ? undefined : dataCachePath,
      onCacheEvent: options.onCacheEvent,
    });
  } catch (error) {
    for (const dataset of datasets) dataset.close();
    throw error;
  }
}

function blendSize(options: {
  weights: readonly number[] | undefined;
  wanted: number | undefined;
  lengths: readonly number[];
}): number | undefined {
  const { weights, wanted, lengths } = options;
  if (wanted === undefined) return undefined;
  if (weights === undefined) {
    return Math.min(
      wanted,
      lengths.reduce((sum, length) => sum + length, 0),
    );
  }
  return weights.reduce((sum, weight) => sum + Math.ceil(wanted * weight), 0);
}
