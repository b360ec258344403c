import { expect, it } from 'vitest';
import { catchError, configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

it('names the services that a run reports to', () => {
  expect(configure(small).logging).not.toHaveProperty('wandb');
  const line = `${small} --wandb-project a --wandb-exp-name b --wandb-entity c --mlflow-tracking-uri http://host:5000//`;
  expect(configure(line).logging).toMatchObject({
    wandb: { project: 'a', name: 'b', entity: 'c' },
    mlflow: { trackingUri: 'http://host:5000', experiment: 'Default' },
  });
});

it('writes a trace into the run folder, where no other place is named', () => {
  const configureProfile = (flags: string) =>
    configure(`${small} --profile-steps 1 2 ${flags}`).logging.profile;
  expect(configureProfile('')).toEqual({ first: 1, last: 2, file: 'trace.json' });
  expect(configureProfile('--save runs/a')?.file).toBe('runs/a/trace.json');
  expect(configureProfile('--save runs/a --profile-trace b.json')?.file).toBe('b.json');
  expect(configureProfile('--save runs/a --profile-trace trace.json')?.file).toBe('trace.json');
});

it('never shows a password', () => {
  for (const uri of ['https://me:hunter2@host', 'me:hunter2@host'])
    expect(JSON.stringify(catchError(`${small} --mlflow-tracking-uri ${uri}`))).not.toContain('hunter2');
});

refusals(
  [
    ['--wandb-exp-name a', 1, 'MTL_FLAG_NEEDS', /expected --wandb-project NAME/],
    ['--wandb-entity a', 1, 'MTL_FLAG_NEEDS', /expected --wandb-project NAME/],
    ['--mlflow-experiment-name a', 1, 'MTL_FLAG_NEEDS', /expected --mlflow-tracking-uri URL/],
    ['--mlflow-tracking-uri databricks', 1, 'MTL_SERVICE_URL', /databricks is not the URL of a service/],
    ['--mlflow-tracking-uri https://me:hunter2@host', 1, 'MTL_SERVICE_URL', /set MLFLOW_TRACKING_USERNAME/],
    ['--profile-trace a.json', 1, 'MTL_FLAG_NEEDS', /expected --profile-steps FIRST LAST/],
    ['--train-iters 9 --profile-steps 5 4', 1, 'MTL_PROFILE_STEPS', /pass --profile-steps 4 5/],
    ['--train-iters 9 --profile-steps 8 10', 1, 'MTL_PROFILE_STEPS', /pass --profile-steps 8 9/],
  ],
  { numAdvised: 2 },
);
