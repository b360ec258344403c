import { flagsOfProgram } from '@mtl/configuration/flags';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { createProgram } from '../src/create-program.js';
import { runMtlHere } from './support/run-mtl-here.js';

interface Described {
  readonly what: string;
  readonly text: string;
}

const all = (command: Command): readonly Command[] => [command, ...command.commands.flatMap(all)];
const commands = all(createProgram());

const ofCommands: readonly Described[] = commands.map((each) => ({
  what: each.name(),
  text: each.description(),
}));
const ofFlags: readonly Described[] = [
  ...commands.flatMap((command) => [
    ...command.options
      .filter(({ hidden }) => !hidden)
      .map(({ flags, description }) => ({ what: `${command.name()} ${flags}`, text: description })),
    ...command.registeredArguments.map((each) => ({
      what: `${command.name()} ${each.name()}`,
      text: each.description,
    })),
  ]),
  ...(['gpt', 'bert'] as const).flatMap((model) =>
    flagsOfProgram(model).map(({ name, text }) => ({ what: `--${name} of ${model}`, text })),
  ),
];

/** One or more sentences, then in brackets what holds without the flag. */
const sentence = /^[A-Z].*\.( \[.+\])?$/s;

/** Verbs that tell the reader to do something: help says what the program does. */
const imperative =
  /^(With [^:]+: )?(also )?(build|check|choose|clip|compare|compute|convert|count|create|delete|divide|end|evaluate|find|gather|give|grow|keep|leave|let|list|load|make|measure|merge|normalize|pad|predict|print|read|recompute|record|reduce|remove|resume|save|scale|send|serve|show|simulate|skip|split|start|take|time|train|use|wait|write) /i;

const nouns = /^Weight (of|decay)/;

describe('descriptions of help', () => {
  it('of commands say in the third person what they do', () => {
    const others = ofCommands.filter(
      ({ text }) => !(sentence.test(text) && /^[A-Z][a-z-]+s[ ,:]/.test(text) && !imperative.test(text)),
    );
    expect(others).toEqual([]);
  });

  it('of flags and operands are sentences that tell the reader nothing to do', () => {
    expect(ofFlags.length).toBeGreaterThan(400);
    const others = ofFlags.filter(
      ({ text }) => !(sentence.test(text) && (!imperative.test(text) || nouns.test(text))),
    );
    expect(others).toEqual([]);
  });

  it('are shown with choices and defaults in one form', async () => {
    for (const command of commands) {
      const help = command.helpInformation();
      expect(help).not.toContain('(default:');
      expect(help).not.toContain('(choices:');
      expect(help).not.toContain('display help for command');
    }
    const { stdout } = await runMtlHere('eval', '--help');
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain('--device <cpu|cuda> Where the model computes. [cpu]');
  });
});
