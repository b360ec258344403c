import { CheckpointError } from '@mtl/errors';
import type { GeluKind } from '@mtl/kernels';
import type { JsonFields } from './json-fields.js';

/** transformers' names of activations that are computed here; three of them are the tanh formula. */
const geluKinds: Readonly<Record<string, GeluKind>> = {
  gelu_new: 'tanh',
  gelu_pytorch_tanh: 'tanh',
  gelu_fast: 'tanh',
  gelu: 'erf',
  gelu_python: 'erf',
};

/**
 * The GELU that a configuration names.
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for another activation
 */
export function geluKindOf(
  fields: JsonFields,
  { name, otherwise }: { readonly name: string; readonly otherwise: string },
): GeluKind {
  const activation = fields.optional(name, 'a string', otherwise);
  const kind = Object.hasOwn(geluKinds, activation) ? geluKinds[activation] : undefined;
  if (kind !== undefined) return kind;
  throw new CheckpointError(
    'MTL_HUGGING_FACE_CONFIG',
    `${fields.path}: ${name} is ${JSON.stringify(activation)}, which is not supported: the model needs that activation`,
    {
      expected: `one of ${Object.keys(geluKinds).join(', ')}`,
      remedy: 'choose a model whose feed-forward layers have a GELU',
      exitCode: 2,
    },
  );
}
