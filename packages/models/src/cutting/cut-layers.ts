import type { Slice } from '@mtl/autograd';
import { ConfigurationError } from '@mtl/errors';

/**
 * How layers are dealt out to the chunks of a pipeline: `even` numbers as Megatron-LM has them, numbers
 * `balanced` by work, or given numbers, one for each chunk in the order of the model.
 */
export type LayerLayout = 'even' | 'balanced' | readonly number[];

/** Work outside of layers, in layers. */
export interface EndsWork {
  /** Of the first chunk: the embeddings. */
  readonly embedding: number;
  /** Of the last chunk: the head with the loss. */
  readonly head: number;
}

export interface CutLayersOptions {
  readonly numLayers: number;
  /** Pieces of the model: p stages of v chunks are p v. */
  readonly numChunks: number;
  readonly layout: LayerLayout;
  readonly work: EndsWork;
}

/**
 * The layers of each chunk, in the order of the model. Chunk c of rank r is number c p + r where schedules
 * deal them out in rounds, so that even pieces are those of Narayanan et al. 2021, section 2.2.2.
 *
 * @throws ConfigurationError `MTL_PIPELINE_LAYERS` when they cannot be cut so, with the nearest numbers that
 *   can
 */
export function cutLayers(options: CutLayersOptions): readonly Slice[] {
  const { numLayers, numChunks, layout } = options;
  if (numChunks > numLayers) {
    throw new ConfigurationError(
      'MTL_PIPELINE_LAYERS',
      `${numLayers} layers cannot be cut into ${numChunks} pieces`,
      {
        expected: `at most ${numLayers} pieces: every piece has a layer`,
        remedy: 'choose fewer stages or fewer chunks per stage',
        details: { numLayers, numChunks },
      },
    );
  }
  if (typeof layout !== 'string') return slicesOf(checkedNumbers(layout, options));
  return slicesOf(layout === 'even' ? evenNumbers(options) : balancedNumbers(options));
}

function slicesOf(numbers: readonly number[]): Slice[] {
  let end = 0;
  return numbers.map((number) => {
    end += number;
    return { start: end - number, end };
  });
}

function checkedNumbers(
  numbers: readonly number[],
  { numLayers, numChunks }: CutLayersOptions,
): readonly number[] {
  const sum = numbers.reduce((total, number) => total + number, 0);
  const isWhole = numbers.every((number) => Number.isSafeInteger(number) && number >= 1);
  if (numbers.length === numChunks && sum === numLayers && isWhole) return numbers;
  throw new ConfigurationError(
    'MTL_PIPELINE_LAYERS',
    `pieces of ${numbers.join(', ')} layers, where ${numLayers} layers go into ${numChunks} pieces`,
    {
      expected: `${numChunks} numbers of 1 or more whose sum is ${numLayers}`,
      details: { numbers, numLayers, numChunks },
    },
  );
}

function evenNumbers({ numLayers, numChunks }: CutLayersOptions): number[] {
  if (numLayers % numChunks === 0) return new Array<number>(numChunks).fill(numLayers / numChunks);
  const below = numLayers - (numLayers % numChunks);
  throw new ConfigurationError(
    'MTL_PIPELINE_LAYERS',
    `${numLayers} layers are no even pieces for ${numChunks}`,
    {
      expected: [below, below + numChunks].filter((number) => number > 0).join(' or '),
      remedy: 'or balance them by work',
    },
  );
}

/**
 * The numbers whose largest chunk has the least work, since the slowest stage is what the others wait for;
 * among these the most alike. Chunks between the ends differ by one layer at most, the larger ones last:
 * early stages keep more activations.
 */
function balancedNumbers({ numLayers, numChunks, work }: CutLayersOptions): readonly number[] {
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

/** Whole numbers of a given sum that differ by one at most, ascending. */
function alike(sum: number, count: number): number[] {
  const least = Math.floor(sum / count);
  const numMore = sum % count;
  return Array.from({ length: count }, (_, index) => least + (index >= count - numMore ? 1 : 0));
}
