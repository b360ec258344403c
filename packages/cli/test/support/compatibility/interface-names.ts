import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { configFileJsonSchema } from '@mtl/configuration';
import { errorCodes } from '@mtl/tooling/error-codes';
import type { Command } from 'commander';
import { createProgram } from '../../../src/index.js';

/** The names that a version promises to its users. */
export interface InterfaceNames {
  /** The flags of training programs, plans and configuration files, without dashes. */
  readonly trainingFlags: readonly string[];
  /** The flags of `mtl`, after the words of their command: `mtl data prepare --input`. */
  readonly commandFlags: readonly string[];
  /** Documented error codes and environment variables. */
  readonly codes: readonly string[];
}

/** Returns the names of the present code. */
export function interfaceNames(): InterfaceNames {
  const { properties } = configFileJsonSchema() as { readonly properties: Readonly<Record<string, unknown>> };
  return {
    trainingFlags: Object.keys(properties).sort(),
    commandFlags: listFlags(createProgram()).sort(),
    codes: documentedCodes(),
  };
}

function listFlags(command: Command, words: readonly string[] = []): string[] {
  const own = [...words, command.name()];
  return [
    ...command.options.map(({ long, short }) => [...own, long ?? short].join(' ')),
    ...command.commands.flatMap((subcommand) => listFlags(subcommand, own)),
  ];
}

/**
 * Returns the error codes of the API reference, and the names of the sources that READMEs and docs describe.
 */
function documentedCodes(): string[] {
  const packages = fileURLToPath(new URL('../../../../', import.meta.url));
  // a folder without a README is what is left of a package of another branch
  const folders = readdirSync(packages).filter((name) => existsSync(join(packages, name, 'README.md')));
  const docs = join(packages, '../docs');
  const documents = [
    join(packages, '../README.md'),
    ...readdirSync(docs)
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(docs, name)),
    ...folders.map((name) => join(packages, name, 'README.md')),
  ];
  const sources = folders.flatMap((name) => [
    ...sourcesIn(join(packages, name, 'src')),
    ...sourcesIn(join(packages, name, 'native')),
  ]);
  const documented = namesIn(documents);
  const described = [...namesIn(sources)].filter((name) => documented.has(name));
  const codes = errorCodes(join(packages, '..')).map(({ code }) => code);
  return [...new Set([...codes, ...described])].sort();
}

function sourcesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|cc|h|cu|cuh)$/.test(name) && !/\.test\.ts$|^tests\//.test(name))
    .map((name) => join(folder, name));
}

function namesIn(paths: readonly string[]): Set<string> {
  const texts = paths.map((path) => readFileSync(path, 'utf8'));
  return new Set(texts.flatMap((text) => text.match(/\bMTL_[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?!_)/g) ?? []));
}
