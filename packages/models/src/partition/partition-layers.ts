import { ConfigurationError } from '@mtl/errors';
import type { Slice } from '@mtl/layout';

/**
 * How layers are assigned to a pipeline's model chunks. `even`: equally many layers per chunk, as in
 * Megatron-LM. `balanced`: balanced by cost. A list: how many layers each chunk has, in the order of the
 * model.
 */
export type LayerLayout = 'even' | 'balanced' | readonly number[];

/**
 * The cost of the computation before and after the layers, in units of an average layer's cost. Also the
 * costs of the layers themselves if they differ.
 */
export interface EmbeddingAndHeadCost {
  /** The cost of the embeddings. They are in the first chunk. */
  readonly embedding: number;
  /** The cost of the output head and the loss. They are in the last chunk. */
  readonly head: number;
  /** The cost of each layer. The average is 1. If it is undefined, all layers cost the same. */
  readonly layers?: readonly number[];
}

export interface PartitionLayersOptions {
  readonly numLayers: number;
  /** How many model chunks there are: `p * v` for p stages with v chunks each. */
  readonly numChunks: number;
  readonly layout: LayerLayout;
  readonly work: EmbeddingAndHeadCost;
}

/**
 * Returns the layers of each chunk, in the order of the model. If a schedule assigns chunks round-robin,
 * entry `c * p + r` of the result is chunk c on rank r. If the chunks also have equal sizes, this is the
 * placement in Narayanan et al. 2021, section 2.2.2.
 *
 * @throws ConfigurationError `MTL_PIPELINE_LAYERS` if this split is impossible. For `even`, the error names
 *   the nearest possible layer counts
 */
export function partitionLayers(options: PartitionLayersOptions): readonly Slice[] {
  const { numLayers, numChunks, layout } = options;
  if (numChunks > numLayers) {
    throw new ConfigurationError(
      'MTL_PIPELINE_LAYERS',
      `${numLayers} layers cannot be split into ${numChunks} chunks`,
      {
        expected: `at most ${numLayers} chunks: every chunk needs a layer`,
        remedy: 'choose fewer stages or fewer chunks per stage',
        details: { numLayers, numChunks },
      },
    );
  }
  if (typeof layout !== 'string') return makeSlices(checkedNumbers(layout, options));
  if (layout === 'even') return makeSlices(evenNumbers(options));
  const { layers } = options.work;
  return makeSlices(layers === undefined ? balancedNumbers(options) : balancedCosts(options, layers));
}

function makeSlices(numbers: readonly number[]): Slice[] {
  let end = 0;
  return numbers.map((number) => {
    end += number;
    return { start: end - number, end };
  });
}

function checkedNumbers(
  numbers: readonly number[],
  { numLayers, numChunks }: PartitionLayersOptions,
): readonly number[] {
  const sum = numbers.reduce((total, number) => total + number, 0);
  const isWhole = numbers.every((number) => Number.isSafeInteger(number) && number >= 1);
  if (numbers.length === numChunks && sum === numLayers && isWhole) return numbers;
  throw new ConfigurationError(
    'MTL_PIPELINE_LAYERS',
    `chunks of ${numbers.join(', ')} layers for ${numLayers} layers in ${numChunks} chunks`,
    {
      expected: `${numChunks} numbers of 1 or more whose sum is ${numLayers}`,
      details: { numbers, numLayers, numChunks },
    },
  );
}

function evenNumbers({ numLayers, numChunks }: PartitionLayersOptions): number[] {
  if (numLayers % numChunks === 0) return new Array<number>(numChunks).fill(numLayers / numChunks);
  const below = numLayers - (numLayers % numChunks);
  throw new ConfigurationError(
    'MTL_PIPELINE_LAYERS',
    `${numLayers} layers cannot be split evenly into ${numChunks} chunks`,
    {
      expected: [below, below + numChunks].filter((number) => number > 0).join(' or '),
      remedy: 'or balance them by cost',
    },
  );
}

/**
 * Returns layer counts for the chunks that minimize the cost of the most expensive chunk, because the slowest
 * stage determines the speed. Among splits of equal cost, the most even one is chosen. The chunks between the
 * first and the last differ by at most one layer. Among these, larger chunks come later, because early stages
 * keep more activations.
 */
function balancedNumbers({ numLayers, numChunks, work }: PartitionLayersOptions): readonly number[] {
  if (numChunks === 1) return [numLayers];
  const numBetween = numChunks - 2;
  let best:
    | { readonly most: number; readonly squares: number; readonly numbers: readonly number[] }
    | undefined;
  for (let first = 1; first < numLayers; first++) {
    for (let last = 1; last <= numLayers - first; last++) {
      const rest = numLayers - first - last;
      if (numBetween === 0 ? rest > 0 : rest < numBetween) continue;
      const numbers = [first, ...alike(rest, numBetween), last];
      const works = [first + work.embedding, ...numbers.slice(1, -1), last + work.head];
      const most = Math.max(...works);
      const squares = works.reduce((sum, each) => sum + each * each, 0);
      const isBetter =
        best === undefined || most < best.most || (most === best.most && squares < best.squares);
      if (isBetter) best = { most, squares, numbers };
    }
  }
  return best!.numbers;
}

/**
 * A split of the first layers into the first chunks. `numbers` contains the layer count of each chunk, and
 * `squares` is the sum of the squared chunk costs.
 */
interface Split {
  readonly squares: number;
  readonly numbers: readonly number[];
}

/**
 * Does the same as `balancedNumbers` for layers with different costs. Finds the best partition of all, chunk
 * by chunk.
 */
function balancedCosts(
  { numLayers, numChunks, work }: PartitionLayersOptions,
  layers: readonly number[],
): readonly number[] {
  const sums = [0];
  for (const cost of layers) sums.push(sums.at(-1)! + cost);
  const sumWork = (chunk: number, start: number, end: number): number =>
    sums[end]! -
    sums[start]! +
    (chunk === 0 ? work.embedding : 0) +
    (chunk === numChunks - 1 ? work.head : 0);
  const bestWithin = (most: number): Split | undefined => {
    let splits: (Split | undefined)[] = [{ squares: 0, numbers: [] }];
    for (let chunk = 0; chunk < numChunks; chunk++) {
      const next: (Split | undefined)[] = new Array(numLayers + 1).fill(undefined);
      for (const [start, split] of splits.entries()) {
        for (let end = start + 1; split !== undefined && end <= numLayers; end++) {
          const own = sumWork(chunk, start, end);
          if (own > most) break;
          const squares = split.squares + own * own;
          const other = next[end];
          if (other === undefined || squares < other.squares) {
            next[end] = { squares, numbers: [...split.numbers, end - start] };
          }
        }
      }
      splits = next;
    }
    return splits[numLayers];
  };
  // all costs that the most expensive chunk may have
  const candidates = new Set<number>();
  for (const chunk of new Set([0, Math.min(1, numChunks - 1), numChunks - 1])) {
    for (let start = 0; start < numLayers; start++) {
      for (let end = start + 1; end <= numLayers; end++) candidates.add(sumWork(chunk, start, end));
    }
  }
  const sorted = [...candidates].sort((a, b) => a - b);
  let [low, high] = [0, sorted.length - 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (bestWithin(sorted[middle]!) === undefined) low = middle + 1;
    else high = middle;
  }
  return bestWithin(sorted[low]!)!.numbers;
}

/** Returns `count` integers in ascending order. Their sum is `sum`, and they differ by at most one. */
function alike(sum: number, count: number): number[] {
  const least = Math.floor(sum / count);
  const numMore = sum % count;
  return Array.from({ length: count }, (_, index) => least + (index >= count - numMore ? 1 : 0));
}
