import { ConfigurationError } from '@mtl/errors';
import type { FlagName } from '../schema/flag-schema.js';
import type { FlagReader } from '../validation/flag-reader.js';
import { rotaryScalingFields } from './architecture-fields.js';

const rotaryFlags = [
  'rotary-base',
  'rotary-percent',
  'rotary-interleaved',
  'rotary-seq-len-interpolation-factor',
  'use-rope-scaling',
  'rope-scaling-factor',
] as const;

const scalingFlags = Object.keys(rotaryScalingFields) as readonly (keyof typeof rotaryScalingFields)[];
const llama3Flags = [
  'rope-scaling-factor',
  ...scalingFlags.filter((name) => name.startsWith('rope-')),
] as const;
const yarnFlags = scalingFlags.filter((name) => !name.startsWith('rope-'));

/**
 * Checks the flags of position embeddings.
 *
 * @param sizes.headSize features of a head
 * @param sizes.maxPositions the number of positions for which the model is made
 * @throws ConfigurationError `MTL_HEADS`, `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT` or `MTL_FLAG_VALUE`
 */
export function checkPositions(
  flags: FlagReader,
  { headSize, maxPositions }: { readonly headSize: number; readonly maxPositions: number },
  notices: string[],
): void {
  checkPositionsOfBert(flags);
  const type = flags.required('position-embedding-type');
  const without = (names: readonly FlagName[], needed: string): void => {
    const given = names.find((name) => flags.isGiven(name));
    if (given !== undefined) flags.needs(given, needed, 'has no effect without it');
  };
  if (type !== 'yarn') without(yarnFlags, '--position-embedding-type yarn');
  if (type !== 'rope' && type !== 'yarn') {
    without([...rotaryFlags, ...llama3Flags], '--position-embedding-type rope');
    return;
  }
  if (!flags.required('use-rope-scaling')) without(llama3Flags, '--use-rope-scaling');
  checkOneScaling(flags);
  if (type === 'yarn') checkYarn(flags, { maxPositions }, notices);
  else checkLlama3(flags);
  if (flags.required('reset-position-ids') && !flags.required('reset-attention-mask')) {
    notices.push(
      `--reset-position-ids changes little where positions are ${type}: tokens of two documents still attend to each other, ` +
        'at distances that are counted anew; --reset-attention-mask keeps documents apart',
    );
  }
  checkRotarySize(flags, headSize);
}

function checkPositionsOfBert(flags: FlagReader): void {
  const type = flags.required('position-embedding-type');
  if (flags.model !== 'bert' || type === 'learned_absolute' || type === 'rope') return;
  const why = {
    none: 'a BERT sees all tokens and would not know their order',
    yarn: 'Megatron-LM and transformers have no such BERT',
  }[type];
  throw new ConfigurationError('MTL_FLAG_VALUE', `${flags.written('position-embedding-type')}: ${why}`, {
    expected: 'learned_absolute or rope',
    remedy: 'pass --position-embedding-type rope',
    details: { flag: 'position-embedding-type', value: type },
  });
}

function checkOneScaling(flags: FlagReader): void {
  const scalings = [
    ...(flags.required('position-embedding-type') === 'yarn' ? ['position-embedding-type' as const] : []),
    ...(flags.required('use-rope-scaling') ? ['use-rope-scaling' as const] : []),
    ...(flags.required('rotary-seq-len-interpolation-factor') !== 1
      ? ['rotary-seq-len-interpolation-factor' as const]
      : []),
  ];
  const [first, second] = scalings;
  if (first === undefined || second === undefined) return;
  const without =
    second === 'use-rope-scaling' ? '--no-use-rope-scaling' : '--rotary-seq-len-interpolation-factor 1';
  flags.conflict({
    flags: [first, second],
    why: 'angles are scaled one way',
    ...(flags.isLoaded(second) ? { remedy: `pass ${without}, or leave --${first} out` } : {}),
  });
}

function checkLlama3(flags: FlagReader): void {
  const low = flags.get('rope-scaling-low-freq-factor') ?? 1;
  const high = flags.get('rope-scaling-high-freq-factor') ?? 4;
  if (!flags.required('use-rope-scaling') || high > low) return;
  throw new ConfigurationError(
    'MTL_FLAG_VALUE',
    `--rope-scaling-low-freq-factor ${low} with --rope-scaling-high-freq-factor ${high}: long waves are scaled and short ones kept`,
    {
      expected: 'a --rope-scaling-high-freq-factor above --rope-scaling-low-freq-factor',
      remedy: `pass --rope-scaling-high-freq-factor ${4 * low}`,
      details: { low, high },
    },
  );
}

function checkYarn(
  flags: FlagReader,
  { maxPositions }: { readonly maxPositions: number },
  notices: string[],
): void {
  for (const [name, usual] of [
    ['rotary-interleaved', false],
    ['rotary-percent', 1],
  ] as const) {
    if (flags.required(name) === usual) continue;
    flags.conflict({ flags: ['position-embedding-type', name], why: 'yarn rotates halves of whole heads' });
  }
  const base = flags.required('rotary-base');
  if (base <= 1) {
    throw new ConfigurationError(
      'MTL_FLAG_VALUE',
      `${flags.written('rotary-base')}: frequencies of yarn fall`,
      {
        expected: 'a base above 1',
        remedy: 'pass --rotary-base 10000',
        details: { flag: 'rotary-base', value: base },
      },
    );
  }
  checkTurns(flags);
  for (const name of ['mscale', 'mscale-all-dim'] as const) {
    if (flags.get('yarn-attention-factor') === undefined || flags.get(name) === undefined) continue;
    flags.conflict({ flags: ['yarn-attention-factor', name], why: 'queries and keys have one factor' });
  }
  const factor = flags.get('rotary-scaling-factor') ?? 1;
  const original = flags.get('yarn-original-max-position-embeddings') ?? 4096;
  if (maxPositions <= factor * original) return;
  notices.push(
    `yarn of --rotary-scaling-factor ${factor} is made for ${factor * original} positions, ` +
      `and the model has ${maxPositions}: --rotary-scaling-factor ${maxPositions / original} covers them`,
  );
}

function checkTurns(flags: FlagReader): void {
  const [fast, slow] = [flags.get('yarn-beta-fast') ?? 32, flags.get('yarn-beta-slow') ?? 1];
  if (fast >= slow) return;
  throw new ConfigurationError(
    'MTL_FLAG_VALUE',
    `--yarn-beta-fast ${fast} with --yarn-beta-slow ${slow}: fast frequencies are kept and slow ones divided`,
    {
      expected: 'a --yarn-beta-fast of --yarn-beta-slow or more',
      remedy: `pass --yarn-beta-fast ${Math.max(32, slow)}`,
      details: { fast, slow },
    },
  );
}

function checkRotarySize(flags: FlagReader, headSize: number): void {
  const rotarySize = Math.floor(headSize * flags.required('rotary-percent'));
  if (rotarySize > 0 && rotarySize % 2 === 0) return;
  flags.refuse('rotary-percent', `of heads of ${headSize} features rotates ${rotarySize}`, {
    code: 'MTL_HEADS',
    expected: 'an even number of features, 2 or more',
    remedy: `pass --kv-channels ${headSize + (headSize % 2)} --rotary-percent 1`,
    details: { headSize, rotarySize },
  });
}
