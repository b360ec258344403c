import { ConfigurationError } from '@mtl/errors';
import { asStatedBy, modelTypesOf } from '@mtl/formats';
import type { Flags } from '../flags/flag-schema.js';
import { architectureFlags, type KindOfModel, weightFlagNames } from './architecture-flags.js';
import { fieldsOf } from './fields-of.js';

/**
 * Refuses a model whose architecture no Hugging Face directory can record: before a run that writes one.
 *
 * @throws ConfigurationError MTL_HUGGING_FACE_LAYER_NORM for a BERT with layer norm before each sublayer,
 *   MTL_HUGGING_FACE_ARCHITECTURE for any other property
 */
export function checkHuggingFaceArchitecture({ kind, model }: KindOfModel): void {
  const flags = architectureFlags({ kind, model });
  const recorded = modelTypesOf(kind).flatMap((type): Recorded[] => {
    const stated = asStatedBy(type, model);
    if (stated === undefined) return [];
    const read = architectureFlags({ kind, model: stated });
    return [{ type, read, lost: weightFlagNames.filter((name) => read[name] !== flags[name]) }];
  });
  const [nearest] = recorded.sort((one, other) => one.lost.length - other.lost.length);
  if (nearest?.lost.length === 0) return;
  throw refused({ kind, flags, nearest });
}

/** What a directory of a model type records. */
interface Recorded {
  readonly type: string;
  readonly read: Flags;
  /** Flags of the model that would have another value. */
  readonly lost: ReadonlyArray<(typeof weightFlagNames)[number]>;
}

function refused({
  kind,
  flags,
  nearest,
}: {
  readonly kind: KindOfModel['kind'];
  readonly flags: Flags;
  readonly nearest: Recorded | undefined;
}): ConfigurationError {
  const { type, read, lost } = nearest ?? { type: kind, read: {}, lost: [] };
  const text = (of: Flags, name: keyof Flags): string =>
    of[name] === undefined ? `no --${name}` : `--${name} ${of[name]}`;
  const what = lost.length === 0 ? 'these sizes' : lost.map((name) => text(flags, name)).join(' ');
  const code = fieldsOf(kind).find(([name]) => name === lost[0])?.[1].huggingFaceCode;
  return new ConfigurationError(
    code ?? 'MTL_HUGGING_FACE_ARCHITECTURE',
    `a model of ${what} cannot be written for the transformers library; ` +
      `its nearest model type that can be, ${type}, does not have it`,
    {
      expected: lost.map((name) => text(read, name)).join(' '),
      remedy: 'leave --save-hf out, or train a model with that value',
      details: { flag: lost[0] },
    },
  );
}
