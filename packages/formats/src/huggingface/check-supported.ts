import { CheckpointError } from '@mtl/errors';
import type { JsonFields } from './json-fields.js';
import { type HuggingFaceModelKind, modelTypeOf, modelTypes, modelTypesOf } from './model-types.js';
import { type UnsupportedFeature, unsupportedFeatures } from './unsupported-features.js';

const kindNames = { gpt: 'a GPT-2, a Llama or a model like them', bert: 'a BERT' } as const;

/**
 * Refuses a model that cannot be computed here, with what it would need.
 *
 * @param options.wanted the kind that is wanted; default: any that is supported
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function checkSupported(
  fields: JsonFields,
  options: { readonly wanted?: HuggingFaceModelKind } = {},
): void {
  const { wanted } = options;
  const type = fields.required<string>('model_type', 'a string');
  const known = modelTypeOf(type);
  const needs = unsupportedFeatures(fields, known && new Set(known.fields.flatMap(({ names }) => names)));
  for (const [name, kind] of Object.entries(known?.typed ?? {})) {
    fields.optional<unknown>(name, kind, undefined);
  }
  if (known === undefined || needs.length > 0) throw unsupported(fields, needs);
  if (wanted === undefined || wanted === known.kind) return;
  throw refused(`${fields.path} describes ${known.name}, where ${kindNames[wanted]} is wanted`, {
    expected: `model_type ${quoted(modelTypesOf(wanted))}`,
    remedy: known.trainedWith,
  });
}

function unsupported({ path, values }: JsonFields, needs: readonly UnsupportedFeature[]): CheckpointError {
  const type = String(values.model_type);
  const reasons = needs.map(({ what, field }) =>
    field === undefined ? what : `${what} (${field} is ${JSON.stringify(values[field])})`,
  );
  const reason = reasons.length === 0 ? 'an architecture that is not here' : reasons.join('; ');
  const fixable = needs.flatMap(({ field, expected }) =>
    field === undefined ? [] : [`${field} ${expected}`],
  );
  const isKnown = modelTypeOf(type) !== undefined;
  return refused(`${path}: model_type is "${type}", and this model is not supported: it needs ${reason}`, {
    expected: isKnown ? fixable.join(', ') : `model_type ${quoted(Object.keys(modelTypes))}`,
    remedy: 'choose another model: this one is not supported',
  });
}

const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(' or ');

function refused(
  message: string,
  { expected, remedy }: { readonly expected: string; readonly remedy: string },
): CheckpointError {
  return new CheckpointError('MTL_HUGGING_FACE_CONFIG', message, { expected, remedy, exitCode: 2 });
}
