import { UsageError } from '@mtl/errors';
import {
  checkedOperation,
  chooseMetaDevice,
  crossEntropyBackward,
  crossEntropyForwardBackward,
  crossEntropyStatistics,
  type Device,
  Tensor,
} from '@mtl/kernels';
import { type MatmulCollectives, type PendingTensor, startCollective } from '../collective.js';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { BackwardHalves, Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import { addBiasGradient, addWeightGradient } from './linear.js';

/** The collectives for a weight whose rows (vocabulary entries) are sharded over processes. */
export interface LinearCrossEntropyCollectives
  extends Pick<MatmulCollectives, 'gatherInput' | 'reduceInputGradient'> {
  /**
   * Reduces float32 statistics [3, N] in place. Before the call, the statistics are the maximum, the sum of
   * exponentials and the label's logit over this process's columns. Afterwards, they cover all columns.
   */
  reduceStatistics(statistics: Tensor): void;
}

export interface LinearCrossEntropyOptions {
  /** [S, B, H], or the shard for `collectives.gatherInput` */
  readonly input: Variable;
  /** [V, H] including padded entries, or this process's rows. It may be tied to the token embedding */
  readonly weight: Parameter;
  /** [V], sharded like the weight's rows: the output bias of BERT */
  readonly bias?: Parameter | undefined;
  /** The number of real vocabulary entries; padded entries never enter the softmax. */
  readonly vocabularySize: number;
  /** The cap `c`: each logit `x` enters the softmax as `c * tanh(x / c)`. Default: no cap. */
  readonly softCap?: number | undefined;
  /** int32 [S, B] */
  readonly labels: Variable;
  /**
   * float32 [S, B]: the factor of each token in the total loss, which is the token's mask times the loss
   * scale, divided by the number of tokens.
   */
  readonly weights: Variable;
  /**
   * Tokens with this label have no loss and no gradient, whatever their weight. To get the same mean as in
   * PyTorch, the number of tokens in `weights` must exclude ignored tokens.
   */
  readonly ignoreIndex?: number | undefined;
  /** The maximum number of bytes of logits in memory at a time. Default: see `logitRowsAtATime`. */
  readonly chunkBytes?: number;
  readonly collectives?: LinearCrossEntropyCollectives | undefined;
}

/** The tensors of a call, flattened to N = S * B rows. */
interface Rows {
  readonly input: Tensor;
  readonly labels: Tensor;
  readonly weights: Tensor;
  readonly losses: Tensor;
}

function chunkRows(options: LinearCrossEntropyOptions): number {
  const { input, labels, weight, chunkBytes } = options;
  const { device, bytes, size } = input.tensor;
  const [bytesPerRow, inputBytesPerRow] = weight.shape.map((columns) => (columns * bytes) / size);
  return logitRowsAtATime({
    numRows: labels.tensor.size,
    bytesPerRow: bytesPerRow!,
    inputBytesPerRow: inputBytesPerRow!,
    device,
    chunkBytes,
  });
}

/** Runs `body` for consecutive ranges of the rows; the views are disposed of after each range. */
function forChunks(rows: Rows, size: number, body: (chunk: Rows, start: number, end: number) => void): void {
  const numRows = rows.input.dim(0);
  for (let start = 0; start < numRows; start += size) {
    const end = Math.min(start + size, numRows);
    const chunk = {
      input: rows.input.rows(start, end),
      labels: rows.labels.rows(start, end),
      weights: rows.weights.rows(start, end),
      losses: rows.losses.rows(start, end),
    };
    try {
      body(chunk, start, end);
    } finally {
      for (const view of Object.values(chunk)) view.dispose();
    }
  }
}

/**
 * Computes the logits [rows, V] of a chunk and its losses. If a gradient is requested, overwrites the logits
 * with `weights * (softmax - onehot)`.
 */
function crossEntropyOfChunk(
  chunk: Rows,
  options: LinearCrossEntropyOptions,
  { start: firstRow, withGradient }: { readonly start: number; readonly withGradient: boolean },
): Tensor {
  const { weight, bias, vocabularySize, softCap, ignoreIndex, collectives } = options;
  const { device, dtype } = chunk.input;
  const numRows = chunk.input.dim(0);
  const logits = Tensor.empty({ shape: [numRows, weight.shape[0]!], dtype, device });
  weight.precision.forward({ output: logits, input: chunk.input, weight: weight.data, bias: bias?.data });
  const all = Tensor.empty({ shape: [3, numRows], dtype: chunk.losses.dtype, device });
  const row = (index: number): Tensor => all.view({ offset: index * numRows, shape: [numRows] });
  const statistics = { rowMaximum: row(0), rowSum: row(1), labelLogit: row(2) };
  const { start: firstColumn, end } = weight.slices[0]!;
  const numColumns = Math.max(0, Math.min(vocabularySize, end) - firstColumn);
  const inputs = { logits, labels: chunk.labels, firstColumn, numColumns, softCap };
  const gradient = {
    ...statistics,
    ...inputs,
    loss: chunk.losses,
    weights: chunk.weights,
    vocabularySize,
    ignoreIndex,
    firstRow,
    logitGradient: withGradient ? logits : undefined,
  };
  try {
    if (collectives === undefined) {
      crossEntropyForwardBackward(gradient);
    } else {
      crossEntropyStatistics({ ...statistics, ...inputs });
      collectives.reduceStatistics(all);
      crossEntropyBackward(gradient);
    }
    return logits;
  } catch (error) {
    logits.dispose();
    throw error;
  } finally {
    for (const tensor of [all, ...Object.values(statistics)]) tensor.dispose();
  }
}

/**
 * Runs `body` with the rows of a call, and disposes of the views afterwards. If the input is gathered, these
 * are the rows of all processes. `losses` has the shape [N].
 */
function withRows(
  { collectives }: LinearCrossEntropyOptions,
  tensors: Rows,
  body: (rows: Rows) => void,
): void {
  const numRows = tensors.losses.size;
  const whole = startCollective(collectives?.gatherInput, tensors.input).wait();
  const rows = {
    input: whole.reshape([numRows, whole.dim(-1)]),
    labels: tensors.labels.reshape([numRows]),
    weights: tensors.weights.reshape([numRows]),
    losses: tensors.losses.view({ shape: [numRows] }),
  };
  whole.dispose();
  try {
    body(rows);
  } finally {
    for (const view of Object.values(rows)) view.dispose();
  }
}

/**
 * Computes losses and the requested gradients, chunk by chunk. Returns the gradient of the input, [N, H], or
 * the result of `collectives.reduceInputGradient`.
 */
function gradientsOfRows(
  rows: Rows,
  options: LinearCrossEntropyOptions,
  { parts, size }: { readonly parts: BackwardHalves; readonly size: number },
): Tensor | undefined {
  const { input, weight, bias, collectives } = options;
  const { dtype, device } = input.tensor;
  const numRows = rows.input.dim(0);
  const localGradient =
    parts.input && input.requiresGradient
      ? Tensor.empty({ shape: rows.input.shape, dtype, device })
      : undefined;
  let inputGradient: PendingTensor | undefined;
  forChunks(rows, size, (chunk, start, end) => {
    const logitGradient = crossEntropyOfChunk(chunk, options, { start, withGradient: true });
    if (localGradient !== undefined) {
      const output = localGradient.rows(start, end);
      weight.precision.inputGradient({
        inputGradient: output,
        outputGradient: logitGradient,
        weight: weight.data,
      });
      output.dispose();
      // the collective for the input gradient overlaps with the computation of the last weight gradient
      if (end === numRows) inputGradient = startCollective(collectives?.reduceInputGradient, localGradient);
    }
    if (parts.weight) {
      if (!weight.isFrozen) addWeightGradient(weight, logitGradient, chunk.input);
      if (bias !== undefined && !bias.isFrozen) addBiasGradient(bias, logitGradient);
    }
    logitGradient.dispose();
  });
  localGradient?.dispose();
  return inputGradient?.wait();
}

/**
 * Computes the loss of every token, [S * B] float32: the cross entropy of the logits `input * weight^T +
 * bias`. Logits exist only chunk by chunk. While the tape records, forward computes nothing. Backward then
 * computes losses and gradients from the same logits, so that logits are computed only once. The losses must
 * therefore be read after backward. If the weight half of backward runs separately, it computes the logits
 * again.
 *
 * @throws UsageError `MTL_SHAPE` if the vocabulary has more entries than the weight has rows; KernelError
 *   `MTL_INDEX` for a label outside the vocabulary, unless its weight is 0 or it is ignored, as soon as
 *   losses are computed
 */
export const linearCrossEntropy = checkedOperation(
  'linearCrossEntropy',
  (tape: Tape, options: LinearCrossEntropyOptions): Variable => {
    const { input, weight, bias } = options;
    const { dtype, device, shape } = input.tensor;
    if (!(options.vocabularySize <= weight.globalShape[0]!)) {
      throw new UsageError(
        'MTL_SHAPE',
        `linearCrossEntropy: vocabularySize ${options.vocabularySize} over ${weight.name} of ${weight.globalShape[0]} rows`,
        { expected: `at most ${weight.globalShape[0]}`, remedy: 'give the weight a row for every token' },
      );
    }
    const numRows = options.labels.tensor.size;
    const losses = Tensor.empty({
      shape: [numRows],
      dtype: dtype === 'float64' ? 'float64' : 'float32',
      device,
    });
    const size = chunkRows(options);
    const result = tape.result(losses, { requiresGradient: true });

    if (!tape.recording) {
      const tensors = { input: input.tensor, labels: options.labels.tensor, weights: options.weights.tensor };
      try {
        withRows(options, { ...tensors, losses }, (rows) =>
          forChunks(rows, size, (chunk, start) =>
            crossEntropyOfChunk(chunk, options, { start, withGradient: false }).dispose(),
          ),
        );
        return result;
      } catch (error) {
        result.release();
        throw error;
      }
    }

    tape.record(result, () => {
      const saved = {
        input: tape.save(input),
        labels: tape.save(options.labels),
        weights: tape.save(options.weights),
      };
      const held = tape.save(result);
      return {
        name: `linearCrossEntropy ${weight.name}`,
        inputs: [input],
        parameters: trainedParameters(weight, bias),
        saved: [...Object.values(saved), held],
        backward: ({ parts }) => {
          let inputGradient: Tensor | undefined;
          const tensors = {
            input: saved.input.tensor,
            labels: saved.labels.tensor,
            weights: saved.weights.tensor,
          };
          withRows(options, { ...tensors, losses }, (rows) => {
            const flat = gradientsOfRows(rows, options, { parts, size });
            inputGradient = flat?.reshape(shape);
            flat?.dispose();
          });
          return [inputGradient];
        },
      };
    });
    return result;
  },
);

const mebibyte = 1024 * 1024;

/**
 * The maximum number of rows of a matmul's output that a GPU's matrix units compute together. These rows are
 * called a tile.
 */
const tileRows = 128;

export interface LogitRowsOptions {
  /** N: the number of rows of logits in a micro-batch. */
  readonly numRows: number;
  /** The bytes of a row of logits. */
  readonly bytesPerRow: number;
  /** The size in bytes of one input row, from which the logits are computed. */
  readonly inputBytesPerRow: number;
  /** The device of the logits. Default: `cpu`. */
  readonly device?: Device | undefined;
  /**
   * The maximum number of bytes of logits in memory at a time. Default on CPUs: 64 MiB. Default on a GPU: the
   * memory that a layer keeps for backward, between 256 MiB and 1 GiB.
   */
  readonly chunkBytes?: number | undefined;
}

/**
 * The approximate memory that a transformer layer keeps for backward, in multiples of its input: 34 bytes for
 * each element of 2 bytes, without attention's memory (Korthikanti et al. 2022, "Reducing Activation
 * Recomputation in Large Transformer Models").
 */
const keptByLayer = 16;

/**
 * Returns the default size of a chunk of logits, in bytes. Every chunk reads and writes the float32 gradient
 * of the whole vocabulary. On a GPU this takes as long as the matmul of a small chunk, so small chunks are
 * slow. A large chunk on a GPU takes about the memory that one layer keeps, which is little in a model of
 * several layers. The size depends only on shapes, so that every step and every rank with the same shapes
 * computes the same bits.
 */
function defaultChunkBytes(device: Device, inputBytes: number): number {
  if (chooseMetaDevice(device) !== 'meta-cuda') return 64 * mebibyte;
  return Math.min(Math.max(keptByLayer * inputBytes, 256 * mebibyte), 1024 * mebibyte);
}

/**
 * Returns the number of rows of logits in memory at a time: all rows if they fit, otherwise chunks of about
 * equal size. If at least one tile fits, a chunk is a multiple of the tile, because a matmul with 1,171 rows
 * takes as long as a matmul with 1,280 rows.
 */
export function logitRowsAtATime(options: LogitRowsOptions): number {
  const { numRows, bytesPerRow, inputBytesPerRow, device = 'cpu' } = options;
  const { chunkBytes = defaultChunkBytes(device, numRows * inputBytesPerRow) } = options;
  if (numRows * bytesPerRow <= chunkBytes) return numRows;
  const unit = chunkBytes < tileRows * bytesPerRow ? 1 : tileRows;
  const most = Math.max(1, Math.floor(chunkBytes / (unit * bytesPerRow))) * unit;
  const numChunks = Math.ceil(numRows / most);
  return Math.ceil(numRows / (numChunks * unit)) * unit;
}
