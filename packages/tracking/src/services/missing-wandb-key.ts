import { ConfigurationError } from '@mtl/errors';

/** Of a run that reports to wandb without a key. */
export function missingWandbKey(): ConfigurationError {
  return new ConfigurationError('MTL_WANDB_API_KEY', 'WANDB_API_KEY is not set', {
    expected: 'the key of an account at wandb, in the environment',
    remedy: 'set it; or set WANDB_MODE=offline, and send the metrics later (mtl runs send)',
  });
}
