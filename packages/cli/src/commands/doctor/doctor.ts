import { MtlError } from '@mtl/errors';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import type { Finding } from './finding.js';
import { findings } from './findings.js';

/** `mtl doctor`: what this machine has, and what it lacks. */
export function doctorCommand(): Command {
  return newCommand('doctor', 'Shows what training needs and which parts this machine lacks.')
    .option('--json', 'Prints JSON.')
    .action(doctor);
}

async function doctor({ json }: { json?: true }): Promise<void> {
  const found = await findings();
  if (json === true) process.stdout.write(`${JSON.stringify(found)}\n`);
  else process.stdout.write(formatFindings(found));
  const missing = found.filter(({ status }) => status === 'missing');
  if (missing.length === 0) return;
  throw new MtlError(
    'MTL_DOCTOR',
    `parts that training needs are missing: ${missing.map(({ name }) => name).join(', ')}`,
    {
      remedy: missing.map(({ remedy }) => remedy).join('; '),
      exitCode: 1,
    },
  );
}

const marks: Readonly<Record<Finding['status'], string>> = { ok: 'ok', note: '--', missing: '!!' };

function formatFindings(found: readonly Finding[]): string {
  const width = Math.max(...found.map(({ name }) => name.length));
  return found
    .map(({ name, status, value, remedy }) => {
      const line = `${marks[status]}  ${name.padEnd(width)}  ${value}\n`;
      return remedy === undefined ? line : `${line}    ${' '.repeat(width)}  ${remedy}\n`;
    })
    .join('');
}
