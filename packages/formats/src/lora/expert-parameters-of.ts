import type { JsonFields } from '../huggingface/json-fields.js';
import { versionOfParameters } from './lora-file-names.js';
import { mergeRemedy } from './lora-weight-terms.js';

/** A or B of an adapter in a file. */
export interface FoundFactor {
  readonly name: string;
  /** Within the block. */
  readonly target: string;
  readonly isDown: boolean;
  readonly shape: readonly number[];
}

const wrapper = /^(.+\.experts)(\.base_layer)?$/;

/** Whether a module is PEFT's wrapper of a parameter of all experts. */
export const isExpertWrapper = (target: string): boolean => wrapper.test(target);

/** The parameters of all experts of a layer, the inner wrapper first. */
const parameters = ['gate_up_proj', 'down_proj'];

/**
 * The parameters of experts that have adapters. PEFT wraps their module once for each: two wrappers are of
 * both, and which one a single wrapper is of is known by `target_parameters` alone.
 *
 * @param wrapped what a file has of wrappers
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG where adapter_config.json names others than the file has,
 *   or an older version has written factors that cannot be told from today's
 */
export function expertParametersOf(wrapped: readonly FoundFactor[], fields: JsonFields): readonly string[] {
  const [first] = wrapped;
  if (first === undefined) return [];
  checkOrientation(wrapped, fields);
  const names = [fields.values.target_parameters].flat().filter((name) => typeof name === 'string');
  const lastOf = (name: string): string => name.slice(name.lastIndexOf('.') + 1);
  const named = parameters.filter((one) => names.some((name) => lastOf(name) === one));
  const numWrappers = new Set(wrapped.map(({ target }) => target)).size;
  const [, module] = wrapper.exec(first.target)!;
  if (named.length === numWrappers) return named.map((name) => `${module}.${name}`);
  const expected = `${numWrappers === 1 ? 'one of' : 'both'} ${parameters.join(' and ')}, as the file has factors`;
  throw fields.refuse('target_parameters', expected);
}

/**
 * Versions of PEFT before `versionOfParameters` took inputs for outputs: such factors have other shapes,
 * unless a matrix has as many inputs as outputs.
 */
function checkOrientation(wrapped: readonly FoundFactor[], fields: JsonFields): void {
  const sizesOf = (isDown: boolean, dim: number) =>
    new Map(wrapped.filter((one) => one.isDown === isDown).map(({ target, shape }) => [target, shape[dim]]));
  const [inputs, outputs] = [sizesOf(true, 1), sizesOf(false, 0)];
  const isSquare = [...inputs].some(([target, size]) => outputs.get(target) === size);
  const version = fields.optional<string>('peft_version', 'a string', '0');
  if (!isSquare || !isBefore(version, versionOfParameters)) return;
  throw fields.unsupported('peft_version', {
    needs: 'factors of transposed matrices',
    expected: `${versionOfParameters} or a later version`,
    what: 'the LoRA of experts',
    remedy: mergeRemedy,
  });
}

/** Whether a version is older than another one, by its numbers. */
function isBefore(version: string, other: string): boolean {
  const numbersOf = (text: string): number[] => (text.match(/\d+/g) ?? []).slice(0, 3).map(Number);
  const [own, others] = [numbersOf(version), numbersOf(other)];
  const at = others.findIndex((number, index) => number !== (own[index] ?? 0));
  return at >= 0 && (own[at] ?? 0) < others[at]!;
}
