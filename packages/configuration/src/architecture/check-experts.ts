import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { FlagReader } from '../validation/flag-reader.js';
import { checkLayerList } from './check-layer-lists.js';
import { expertFields } from './expert-fields.js';

type ExpertFlag = keyof typeof expertFields;

/**
 * Checks the combination of flags for experts.
 *
 * @param notices collects messages for the user
 * @throws ConfigurationError `MTL_EXPERTS` for an impossible size, whose message contains the nearest
 *   possible size; `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`
 */
export function checkExperts(flags: FlagReader, notices: string[]): void {
  const numExperts = flags.get('num-experts');
  if (numExperts === undefined) {
    checkDense(flags, notices);
    return;
  }
  checkLayers(flags);
  checkGroups(flags, numExperts);
  checkChosen(flags, numExperts);
  checkScores(flags, notices);
  checkSharedExperts(flags);
  checkBalancing(flags, notices);
  checkCapacity(flags, notices);
}

/** Checks that no expert flags are given for a model without experts. */
function checkDense(flags: FlagReader, notices: string[]): void {
  const others = (Object.keys(expertFields) as ExpertFlag[]).filter((name) => isAsked(flags, name));
  const [first] = others;
  if (first === undefined) return;
  // expert flags without experts are allowed, because scripts disable experts with --num-experts 0 and keep
  // the other expert flags
  if (!flags.isAsked('num-experts')) flags.needs(first, '--num-experts', 'is of experts, and there are none');
  notices.push(`without experts no effect: ${others.map((name) => `--${name}`).join(', ')}`);
}

const isAsked = (flags: FlagReader, name: ExpertFlag): boolean =>
  flags.isAsked(name) && ![undefined, false].includes(flags.get(name) as undefined);

function checkLayers(flags: FlagReader): void {
  const name = 'moe-layer-freq';
  const layers = checkLayerList(flags, name, 'MTL_EXPERTS');
  if (layers === undefined || layers.includes(1)) return;
  throw new ConfigurationError('MTL_EXPERTS', `${flags.written(name)}: no layer has experts`, {
    expected: 'a 1 for each layer that has them',
    remedy: 'leave it out, so that all layers have experts, or leave --num-experts out',
    details: { flag: name },
  });
}

interface TooMany {
  readonly flag: ExpertFlag;
  readonly what: string;
  /** The nearest valid values. */
  readonly nearest: readonly number[];
}

function refuse(flags: FlagReader, { flag, what, nearest }: TooMany): never {
  flags.refuse(flag, what, {
    code: 'MTL_EXPERTS',
    expected: nearest.join(' or '),
    remedy: `pass --${flag} ${nearest.at(-1)}`,
    details: { flag, nearest },
  });
}

function checkGroups(flags: FlagReader, numExperts: number): void {
  const [numGroups, groupTopk] = [flags.get('moe-router-num-groups'), flags.get('moe-router-group-topk')];
  if (numGroups === undefined) {
    if (groupTopk === undefined) return;
    flags.needs('moe-router-group-topk', '--moe-router-num-groups', 'chooses groups, and there are none');
  }
  if (groupTopk === undefined) {
    flags.needs('moe-router-num-groups', '--moe-router-group-topk', 'does not say how many a token uses');
  }
  if (numExperts % numGroups !== 0) {
    const nearest = nearestDivisors(numExperts, numGroups);
    const what = `does not divide ${flags.written('num-experts')}`;
    refuse(flags, { flag: 'moe-router-num-groups', what, nearest });
  }
  if (groupTopk > numGroups) {
    const what = `is more than ${flags.written('moe-router-num-groups')}`;
    refuse(flags, { flag: 'moe-router-group-topk', what, nearest: [numGroups] });
  }
}

/**
 * Checks that the number of experts per token exceeds neither the number of experts nor the number of experts
 * in the groups that a token may use.
 */
function checkChosen(flags: FlagReader, numExperts: number): void {
  const numChosen = flags.get('moe-router-topk') ?? 2;
  const [numGroups = 1, groupTopk = 1] = [
    flags.get('moe-router-num-groups'),
    flags.get('moe-router-group-topk'),
  ];
  const most = (numExperts / numGroups) * groupTopk;
  const written = flags.get('moe-router-topk') === undefined ? '--moe-router-topk 2 (default)' : undefined;
  if (numChosen > most) {
    const what =
      numGroups === 1
        ? `is more than ${flags.written('num-experts')}`
        : `is more than the ${most} experts of the ${groupTopk} groups that a token uses`;
    throw new ConfigurationError('MTL_EXPERTS', `${written ?? flags.written('moe-router-topk')} ${what}`, {
      expected: `at most ${most}`,
      remedy: `pass --moe-router-topk ${most}`,
      details: { flag: 'moe-router-topk', numExperts, most },
    });
  }
  if (groupTopk > numChosen) {
    const what = `is more than the ${numChosen} experts that a token uses: groups count by their best experts`;
    refuse(flags, { flag: 'moe-router-group-topk', what, nearest: [numChosen] });
  }
}

function checkScores(flags: FlagReader, notices: string[]): void {
  const score = flags.get('moe-router-score-function') ?? 'softmax';
  const isPre = flags.get('moe-router-pre-softmax') === true;
  if (flags.get('moe-router-topk') === 1 && score === 'softmax' && !isPre) {
    flags.needs(
      'moe-router-topk',
      '--moe-router-pre-softmax',
      'gives the one expert of a token the weight 1 whatever the router says, which then learns nothing',
    );
  }
  if (isPre && score !== 'softmax') {
    // This is a notice and not an error: Megatron-LM ignores --moe-router-pre-softmax with sigmoid and
    // sqrtsoftplus, and published commands contain both flags.
    notices.push(`--moe-router-pre-softmax has no effect with --moe-router-score-function ${score}`);
  }
  const hasBias = flags.get('moe-router-enable-expert-bias') === true;
  if (hasBias && score === 'softmax') {
    flags.needs(
      'moe-router-enable-expert-bias',
      '--moe-router-score-function sigmoid or sqrtsoftplus',
      'adds to scores that do not depend on each other, and scores of softmax do',
    );
  }
  if (!hasBias && isAsked(flags, 'moe-router-bias-update-rate')) {
    flags.needs(
      'moe-router-bias-update-rate',
      '--moe-router-enable-expert-bias',
      'moves biases, and there are none',
    );
  }
}

function checkSharedExperts(flags: FlagReader): void {
  const name = 'moe-shared-expert-intermediate-size';
  if (flags.get(name) === undefined) {
    if (flags.get('moe-shared-expert-gate') !== true) return;
    flags.needs('moe-shared-expert-gate', `--${name}`, 'is of shared experts, and there are none');
  }
  if (flags.required('disable-bias-linear')) return;
  flags.needs(name, '--disable-bias-linear', 'has no biases');
}

function checkBalancing(flags: FlagReader, notices: string[]): void {
  const name = 'moe-router-load-balancing-type';
  const types = flags.get(name) ?? ['aux_loss'];
  const coefficients = flags.get('moe-aux-loss-coeff') ?? [0];
  if (types.includes('none') && types.length > 1) {
    throw new ConfigurationError('MTL_FLAG_VALUE', `${flags.written(name)}: none and others`, {
      expected: 'none alone, or losses',
      remedy: 'leave none out',
      details: { flag: name, value: types },
    });
  }
  if (new Set(types).size < types.length) {
    flags.refuse(name, 'names a loss twice', {
      code: 'MTL_FLAG_VALUE',
      expected: 'each once',
      remedy: `pass --${name} ${[...new Set(types)].join(' ')}`,
      details: { flag: name, value: types },
    });
  }
  if (coefficients.length !== types.length) {
    const given =
      flags.get('moe-aux-loss-coeff') === undefined ? 'none given' : `${coefficients.length} given`;
    throw new ConfigurationError(
      'MTL_EXPERTS',
      `--moe-aux-loss-coeff has one number for each of ${flags.written(name)}: ${given}`,
      {
        expected: `${types.length}: for ${types.join(', ')}`,
        remedy: `pass --moe-aux-loss-coeff ${types.map(() => '0.001').join(' ')}`,
        details: { flag: 'moe-aux-loss-coeff', types, coefficients },
      },
    );
  }
  if (types[0] === 'none' && coefficients[0]! > 0) {
    notices.push(`--moe-aux-loss-coeff has no effect with --${name} none`);
  }
  if (types.some((type, index) => type === 'aux_loss' && coefficients[index]! > 0)) {
    notices.push(
      `--${name} aux_loss depends on how the batch is split over micro-batches and data-parallel ranks; seq_aux_loss does not`,
    );
  }
}

function checkCapacity(flags: FlagReader, notices: string[]): void {
  const name = 'moe-expert-capacity-factor';
  if (flags.get(name) !== undefined) {
    notices.push(
      `--${name}: which tokens are dropped depends on how the batch is split over micro-batches and data-parallel ranks; without it none is`,
    );
  } else if (isAsked(flags, 'moe-token-drop-policy')) {
    notices.push(`--moe-token-drop-policy has no effect without --${name}`);
  }
}
