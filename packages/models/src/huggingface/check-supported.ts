import { CheckpointError } from '@mtl/errors';
import type { JsonFields } from './json-fields.js';
import { type ModelTypeName, modelTypeOf, modelTypes } from './model-types.js';
import { type UnsupportedFeature, unsupportedFeatures } from './unsupported-features.js';

/**
 * Refuses a model that cannot be computed here, with what it would need.
 *
 * @param options.wanted the type that is wanted; default: any that is supported
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function checkSupported(fields: JsonFields, options: { readonly wanted?: ModelTypeName } = {}): void {
  const { wanted } = options;
  const type = fields.required<string>('model_type', 'a string');
  const needs = unsupportedFeatures(fields);
  const known = modelTypeOf(type);
  for (const [name, kind] of Object.entries(known?.typed ?? {})) {
    fields.optional<unknown>(name, kind, undefined);
  }
  if (known === undefined || needs.length > 0) throw unsupported(fields, needs);
  if (wanted === undefined || wanted === type) return;
  throw refused(`${fields.path} describes ${known.name}, where ${modelTypes[wanted].name} is wanted`, {
    expected: `model_type ${JSON.stringify(wanted)}`,
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
  const types = Object.keys(modelTypes).map((name) => JSON.stringify(name));
  return refused(`${path}: model_type is "${type}", and this model is not supported: it needs ${reason}`, {
    expected: isKnown ? fixable.join(', ') : `model_type ${types.join(' or ')}`,
    remedy: 'choose another model: this one cannot be computed here',
  });
}

function refused(
  message: string,
  { expected, remedy }: { readonly expected: string; readonly remedy: string },
): CheckpointError {
  return new CheckpointError('MTL_HUGGING_FACE_CONFIG', message, { expected, remedy, exitCode: 2 });
}
