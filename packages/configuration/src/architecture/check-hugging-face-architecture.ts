import { ConfigurationError } from '@mtl/errors';
import { huggingFaceProperties, type ModelTypeName } from '@mtl/models';
import type { ModelKind } from '../model-kind.js';
import { architectureFlags, type KindOfModel } from './architecture-flags.js';
import { fieldsOf } from './fields-of.js';
import { negatedIf, unstatedValue } from './model-values.js';

/** What the transformers library calls the models of a kind. */
const modelTypeNames: Readonly<Record<ModelKind, ModelTypeName>> = { gpt: 'gpt2', bert: 'bert' };

/**
 * Refuses a model whose architecture a Hugging Face directory cannot record: before a run that writes one.
 *
 * @throws ConfigurationError MTL_HUGGING_FACE_LAYER_NORM for a BERT with layer norm before each sublayer,
 *   MTL_HUGGING_FACE_ARCHITECTURE for any other property
 */
export function checkHuggingFaceArchitecture({ kind, model }: KindOfModel): void {
  const flags = architectureFlags({ kind, model });
  const { stated, fixed } = huggingFaceProperties(modelTypeNames[kind]);
  for (const [name, field] of fieldsOf(kind)) {
    const { key, decides, huggingFaceCode } = field;
    if (decides !== 'weights' || stated.has(key)) continue;
    const only = negatedIf(field, fixed[key]) ?? unstatedValue(field, { ...model, kind });
    if (flags[name] === only) continue;
    throw new ConfigurationError(
      huggingFaceCode ?? 'MTL_HUGGING_FACE_ARCHITECTURE',
      `a model of --${name} ${flags[name]} cannot be written for the transformers library, whose ${kind.toUpperCase()} does not have it`,
      {
        expected: `--${name} ${only}`,
        remedy: 'leave --save-hf out, or train a model with that value',
        details: { flag: name },
      },
    );
  }
}
