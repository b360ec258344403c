import type { StatePrecision, TrainingConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

/** The flags whose other values need `--use-precision-aware-optimizer`. */
const dtypeFlags = ['exp-avg-dtype', 'exp-avg-sq-dtype', 'main-grads-dtype'] as const;

/**
 * Returns how states and master weights are kept, if the flags request a precision-aware optimizer.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`
 */
export function configureStatePrecision(
  flags: FlagReader,
  { training, notices }: { readonly training: TrainingConfiguration; readonly notices: string[] },
): StatePrecision | undefined {
  const remainders = 'store-param-remainders';
  if (!flags.required('use-precision-aware-optimizer')) {
    for (const name of dtypeFlags) {
      if (flags.required(name) !== 'fp32') {
        flags.needs(name, '--use-precision-aware-optimizer', 'is a precision that it can have');
      }
    }
    notices.push(...flags.noticesOfUnused([remainders], 'without --use-precision-aware-optimizer'));
    return undefined;
  }
  if (flags.required('optimizer') === 'muon') {
    flags.conflict({
      flags: ['use-precision-aware-optimizer', 'optimizer'],
      why: 'only the states of AdamW can be in other precisions',
      remedy: 'use --optimizer adam, or leave --use-precision-aware-optimizer out',
    });
  }
  if (flags.required('device') === 'cuda') {
    flags.conflict({
      flags: ['use-precision-aware-optimizer', 'device'],
      why: 'the update with states in other precisions has no CUDA kernel',
      remedy: 'leave --use-precision-aware-optimizer out, or use --device cpu',
    });
  }
  const isBfloat16 = training.precision === 'bf16';
  if (flags.get(remainders) === true && !isBfloat16) {
    notices.push(`--${remainders} has no effect without --bf16: master weights stay whole`);
  }
  return {
    expAvgDtype: flags.required('exp-avg-dtype'),
    expAvgSqDtype: flags.required('exp-avg-sq-dtype'),
    mainGradsDtype: flags.required('main-grads-dtype'),
    storeParamRemainders: isBfloat16 && (flags.get(remainders) ?? true),
  };
}
