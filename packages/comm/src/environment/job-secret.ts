import { readFileSync, statSync } from 'node:fs';
import { ConfigurationError } from '@mtl/errors';
import type { Variables } from './variable-reader.js';

const leastBytes = 16;
const command = 'head -c 32 /dev/urandom | base64';

/**
 * Returns the common secret of a job's processes: MTL_JOB_SECRET, or the content of the file
 * MTL_JOB_SECRET_FILE, which only its owner may read. `mtl run` creates a secret. Under srun, mpirun and
 * torchrun, the user must create it.
 *
 * @throws ConfigurationError MTL_JOB_SECRET if the secret is missing or too short, or if its file is
 *   accessible to other users
 */
export function readJobSecret(variables: Variables): string {
  const secret = variables.MTL_JOB_SECRET || readSecretFile(variables.MTL_JOB_SECRET_FILE);
  if (secret === undefined) {
    throw new ConfigurationError('MTL_JOB_SECRET', 'the processes of this job share no secret', {
      expected: 'MTL_JOB_SECRET, or MTL_JOB_SECRET_FILE with the path of a file of mode 0600',
      remedy: `export MTL_JOB_SECRET="$(${command})" before srun, mpirun or torchrun; mtl run does it itself`,
    });
  }
  if (Buffer.byteLength(secret) >= leastBytes) return secret;
  throw new ConfigurationError(
    'MTL_JOB_SECRET',
    `the secret of the job has ${Buffer.byteLength(secret)} bytes`,
    {
      expected: `at least ${leastBytes}`,
      remedy: `make one with: ${command}`,
    },
  );
}

function readSecretFile(path: string | undefined): string | undefined {
  if (path === undefined || path === '') return undefined;
  try {
    const { mode } = statSync(path);
    if ((mode & 0o077) === 0) return readFileSync(path, 'utf8').trim();
    throw new ConfigurationError(
      'MTL_JOB_SECRET',
      `others may read MTL_JOB_SECRET_FILE ${path} (mode 0${(mode & 0o777).toString(8)})`,
      { expected: 'mode 0600', remedy: `chmod 600 ${path}, and make a new secret: others may know this one` },
    );
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw new ConfigurationError('MTL_JOB_SECRET', `MTL_JOB_SECRET_FILE ${path} cannot be read`, {
      remedy: `create it with: umask 077; ${command} > ${path}`,
      cause: error,
    });
  }
}
