import { type LogicalTensor, runsOfBox } from '@mtl/checkpoint';
import { countElements, matmul, scale, Tensor, tidy } from '@mtl/kernels';
import type { GptModelConfiguration } from '@mtl/models';
import { viewAsBytes } from '../huggingface/float-bytes.js';
import { runsWithin, type ValueRange, type ValueRun } from '../huggingface/value-runs.js';
import { isAdapter, type LoraConfiguration } from './lora-configuration.js';
import { specifyLora } from './lora-modules.js';
import { type AdaptedWeight, adaptedWeights } from './lora-weight-names.js';

/**
 * Returns a model's weights with its adapters merged into them. The merged weights compute the same outputs
 * as the weights with adapters, up to rounding. A weight is merged in float32 when the caller reads it or a
 * slice of it. Weights without adapters are returned unchanged.
 *
 * @param tensors the tensors of the whole model and its adapters, complete and in float32
 * @throws ConfigurationError MTL_LORA_TARGETS
 */
export function mergedWeights(
  tensors: readonly LogicalTensor[],
  { model, lora }: { readonly model: GptModelConfiguration; readonly lora: LoraConfiguration },
): LogicalTensor[] {
  const { scale: factor } = specifyLora(lora, model);
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const all = adaptedWeights(model, lora);
  // keeps the factors for the weight that was read last, because its next slice may be read next
  let last: { readonly name: string; readonly additions: Promise<readonly Addition[]> } | undefined;
  const findAdditions = (name: string, adapters: readonly AdaptedWeight[]): Promise<readonly Addition[]> => {
    if (last?.name !== name) {
      const read = async (of: string): Promise<Float32Array> => copyFloats(await byName.get(of)!.read());
      const additions = adapters.map(async ({ weight, outputs, down, up, isOfExperts }) => {
        const factors = { down: await read(down.name), up: await read(up.name) };
        return { weight: weight.globalShape, outputs, isOfExperts, factor, ...factors };
      });
      last = { name, additions: Promise.all(additions) };
    }
    return last.additions;
  };
  return tensors
    .filter(({ name }) => !isAdapter(name))
    .map((tensor) => {
      const { name, globalShape, readRange } = tensor;
      const adapters = all.filter(({ weight }) => weight.name === name);
      if (adapters.length === 0) return tensor;
      const add = async (values: Float32Array, range: ValueRange): Promise<void> => {
        for (const addition of await findAdditions(name, adapters)) addTo(values, range, addition);
      };
      const read = async (): Promise<Uint8Array> => {
        const values = copyFloats(await tensor.read());
        await add(values, { start: 0, end: countElements(globalShape) });
        return viewAsBytes(values);
      };
      const readMergedRange = async (range: ValueRange, target: Uint8Array): Promise<void> => {
        const rows = wholeRows(range, globalShape.at(-1)!);
        const values = new Float32Array(rows.end - rows.start);
        await tensor.readRange!(rows, viewAsBytes(values));
        await add(values, rows);
        target.set(viewAsBytes(values.subarray(range.start - rows.start, range.end - rows.start)));
      };
      const { readRange: _, ...others } = tensor;
      return {
        ...others,
        read,
        readInto: async (target: Uint8Array) => target.set(await read()),
        ...(readRange && { readRange: readMergedRange }),
      };
    });
}

/** Returns a copy of the bytes as floats, which the caller may modify. */
function copyFloats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/** Extends a range of values to complete rows of the given length. */
const wholeRows = ({ start, end }: ValueRange, length: number): ValueRange => ({
  start: Math.floor(start / length) * length,
  end: Math.ceil(end / length) * length,
});

/** The change that an adapter makes to a weight: `factor * B * A`. */
interface Addition {
  /** The shape of the weight: [O, I], or [E, O, I] for experts. */
  readonly weight: readonly number[];
  /** The range of the weight's outputs that the adapter changes. Default: all outputs. */
  readonly outputs: AdaptedWeight['outputs'];
  /** True if `down` and `up` contain separate factors for each expert, one after another. */
  readonly isOfExperts: boolean;
  readonly down: Float32Array;
  readonly up: Float32Array;
  readonly factor: number;
}

/**
 * Adds `factor * B * A` to rows of a weight, separately for each expert.
 *
 * @param range the position of the rows within the weight, counted in values
 */
function addTo(values: Float32Array, { start, end }: ValueRange, addition: Addition): void {
  const { weight, isOfExperts, down, up } = addition;
  if (!isOfExperts) {
    addRows(values, { start, end }, addition);
    return;
  }
  const [numExperts, ...shape] = weight as [number, ...number[]];
  const size = countElements(shape);
  const selectPart = (all: Float32Array, expert: number): Float32Array =>
    all.subarray((expert * all.length) / numExperts, ((expert + 1) * all.length) / numExperts);
  for (let expert = Math.floor(start / size); expert * size < end; expert++) {
    const first = Math.max(start, expert * size);
    const own = { start: first - expert * size, end: Math.min(end, (expert + 1) * size) - expert * size };
    const part = values.subarray(first - start, first - start + own.end - own.start);
    const factors = { down: selectPart(down, expert), up: selectPart(up, expert) };
    addRows(part, own, { ...addition, weight: shape, ...factors });
  }
}

/** Returns the runs that copy the rows of B to the rows of the weight. */
function rowsOfUp({ weight, outputs }: Addition): readonly ValueRun[] {
  const globalShape = weight.slice(0, -1);
  const slices = outputs ?? globalShape.map((end) => ({ start: 0, end }));
  const { runs, runBytes: length, sourceOffset } = runsOfBox({ globalShape, slices });
  return Array.from({ length: runs }, (_, run) => ({ from: run * length, to: sourceOffset(run), length }));
}

function addRows(values: Float32Array, range: ValueRange, addition: Addition): void {
  const { weight, down, up, factor } = addition;
  const inputs = weight.at(-1)!;
  const rank = down.length / inputs;
  const rows = { start: range.start / inputs, end: range.end / inputs };
  const runs = runsWithin(rowsOfUp(addition), rows);
  const [first, last] = [runs[0], runs.at(-1)];
  if (first === undefined || last === undefined) return;
  // the rows of B and the rows of the weight are in the same order, so the runs need a contiguous range of B
  const [start, end] = [first.from, last.from + last.length];
  tidy(() => {
    const dtype = 'float32';
    const shape = [rows.end - rows.start, inputs];
    const whole = Tensor.from(values, { shape, dtype });
    const added = Tensor.empty({ shape: [end - start, inputs], dtype });
    const left = Tensor.from(up.subarray(start * rank, end * rank), { shape: [end - start, rank], dtype });
    const right = Tensor.from(down, { shape: [rank, inputs], dtype });
    matmul({ output: added, left, right });
    const selectRows = (tensor: Tensor, row: number, length: number): Tensor =>
      tensor.strided({ offset: row * inputs, shape: [length, inputs], strides: [inputs, 1] });
    for (const { from, to, length } of runs) {
      const output = selectRows(whole, to - rows.start, length);
      scale({ output, input: selectRows(added, from - start, length), factor, accumulate: true });
    }
    whole.readInto(values);
  });
}
