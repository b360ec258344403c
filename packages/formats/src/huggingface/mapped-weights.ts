import type { LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError, nearestName, UsageError } from '@mtl/errors';
import { isReadableDtype, readableDtypes, type WritableDtype } from './float-bytes.js';
import { chooseTerms, type WeightFiles, weightsRefused } from './weight-files.js';
import type { WeightMapping } from './weight-mapping.js';

/**
 * The mappings between a model's tensors and the tensors in files, and the rules for their names in files.
 */
export interface WeightNames {
  readonly mappings: readonly WeightMapping[];
  /**
   * The prefix that the base model's names have in files of a model with a head, such as `transformer.`.
   * Files that contain only the base model have no prefix.
   */
  readonly prefix: string;
  /**
   * Returns true if the tensor with this name (without prefix) may be in files but is ignored, for example a
   * buffer of older versions or a tied weight.
   */
  isIgnored(name: string): boolean;
  /**
   * Maps the name of each tensor that is a copy to the name of its original, both without prefix. If a file
   * contains both, their values must be equal.
   */
  readonly copies?: Readonly<Record<string, string>>;
  /**
   * Returns a tensor's current name (without prefix), given a name that older versions wrote. Default: the
   * same name.
   */
  canonical?(name: string): string;
}

const formatShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`;
const sameShape = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((size, dim) => size === b[dim]);

/**
 * Returns the names in the files, by the names in the mappings. Checks all weights before any tensor is
 * filled: every expected tensor must exist with its shape and a readable dtype, and no other tensor may
 * exist.
 */
export function resolveNames(
  weights: Pick<WeightFiles, 'path' | 'tensors' | 'terms'>,
  names: Omit<WeightNames, 'mappings'> & { readonly mappings: readonly Pick<WeightMapping, 'sources'>[] },
): ReadonlyMap<string, string> {
  const { mappings, prefix, isIgnored, copies = {}, canonical = (name: string) => name } = names;
  const stripped = (name: string): string =>
    canonical(name.startsWith(prefix) ? name.slice(prefix.length) : name);
  const originals = new Map(Object.entries(copies).map(([copy, original]) => [original, copy]));
  const inFile = new Map([...weights.tensors.keys()].map((name) => [stripped(name), name]));
  const wanted = new Map<string, string>();
  for (const { name, shape } of mappings.flatMap(({ sources }) => sources)) {
    // a file may contain either tensor of a tied pair, or both
    const fileName = inFile.get(name) ?? inFile.get(originals.get(name) ?? '');
    if (fileName === undefined) {
      const missing = nameInFile(name, { weights, prefix });
      const nearest = nearestName(missing, weights.tensors.keys());
      throw weightsRefused(weights, `tensor ${missing} not found`, nearest && `a name such as ${nearest}`);
    }
    const entry = weights.tensors.get(fileName)!;
    if (!sameShape(entry.shape, shape)) {
      throw weightsRefused(
        weights,
        `${fileName} has the shape ${formatShape(entry.shape)}`,
        formatShape(shape),
      );
    }
    if (!isReadableDtype(entry.dtype)) {
      throw weightsRefused(weights, `${fileName} is ${entry.dtype}`, readableDtypes.join(', '));
    }
    wanted.set(name, fileName);
  }
  const unknown = [...inFile].filter(([name]) => !wanted.has(name) && !isIgnored(name));
  if (unknown.length > 0) {
    const names = unknown.map(([, fileName]) => fileName);
    throw weightsRefused(
      weights,
      `${names.length} tensors that this model does not have: ${names.slice(0, 4).join(', ')}`,
      `the tensors of ${chooseTerms(weights).configuration} only`,
    );
  }
  return wanted;
}

/** Matches the names of heads, which have no prefix in any file. */
const ofHead = /^(lm_head|cls|classifier|qa_outputs)\./;

/** Returns a tensor's name in these files. */
function nameInFile(
  name: string,
  { weights, prefix }: { weights: Pick<WeightFiles, 'tensors'>; prefix: string },
): string {
  const hasPrefix = [...weights.tensors.keys()].some((known) => known.startsWith(prefix));
  return hasPrefix && !ofHead.test(name) ? `${prefix}${name}` : name;
}

/**
 * Returns the mapping for the given tensor.
 *
 * @throws UsageError MTL_HUGGING_FACE_TENSOR for an unknown name; CheckpointError MTL_HUGGING_FACE_SHAPE
 */
export function findMapping(
  tensor: LogicalTensor,
  byName: ReadonlyMap<string, WeightMapping>,
): WeightMapping {
  const mapping = byName.get(tensor.name);
  if (mapping === undefined) {
    throw new UsageError('MTL_HUGGING_FACE_TENSOR', `no weight of the model is called ${tensor.name}`, {
      expected: nearestName(tensor.name, byName.keys()) ?? 'the names of the parameters of its stages',
    });
  }
  if (sameShape(mapping.globalShape, tensor.globalShape)) return mapping;
  throw new CheckpointError(
    'MTL_HUGGING_FACE_SHAPE',
    `${tensor.name} has the shape ${formatShape(mapping.globalShape)} in the Hugging Face model and ` +
      `${formatShape(tensor.globalShape)} in this one`,
    { remedy: 'build the model from the configuration that was read', exitCode: 2 },
  );
}

/**
 * Returns the dtype of a logical tensor.
 *
 * @throws UsageError MTL_HUGGING_FACE_TENSOR for a dtype that weights cannot have
 */
export const writableDtype = (tensor: LogicalTensor): WritableDtype => {
  if (tensor.dtype === 'F32' || tensor.dtype === 'BF16' || tensor.dtype === 'F16') return tensor.dtype;
  throw new UsageError('MTL_HUGGING_FACE_TENSOR', `${tensor.name} is ${tensor.dtype}`, {
    expected: 'F32, BF16 or F16',
  });
};
