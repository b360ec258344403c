import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createProgram } from '../src/create-program.js';
import { runMtlHere } from './support/run-mtl-here.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
beforeAll(async () => {
  mkdirSync(join(directory.path, 'corpus'));
  writeFileSync(join(directory.path, 'notes.txt'), '');
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { status, stdout, stderr } = await runMtlHere('completion', shell);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    writeFileSync(join(directory.path, `mtl.${shell}`), stdout);
  }
});
afterAll(() => directory.dispose());

/**
 * The line up to the cursor, and the words that a shell offers there: exactly these, or with `...` among
 * others.
 */
const cases: ReadonlyArray<readonly [line: string, offered: readonly string[]]> = [
  ['mtl tra', ['train']],
  ['mtl train ', ['bert', 'gpt']],
  ['mtl data pre', ['prepare']],
  ['mtl data prepare --tokenizer-t', ['--tokenizer-type']],
  ['mtl data prepare --tokenizer-type GPT', ['GPT2BPETokenizer']],
  ['mtl data prepare --append-eod --tex', ['--text-documents']],
  ['mtl data prepare --input no', ['notes.txt']],
  ['mtl data prepare --input notes.txt cor', ['corpus']],
  ['mtl data inspect no', ['notes.txt']],
  ['mtl eval --task hella', ['hellaswag']],
  ['mtl finetune --task ', ['mnli', 'qqp', 'race', 'squad']],
  ['mtl finetune --distributed-backend nc', ['nccl']],
  ['mtl train gpt --preset gpt2-12', ['gpt2-124m']],
  ['mtl train gpt --num-attention-h', ['--num-attention-heads']],
  ['mtl train bert --mask-p', ['--mask-prob']],
  ['mtl plan --profile h200', ['h200-141gb']],
  ['mtl plan --profile h200-141gb -- --lr-decay-st', ['--lr-decay-style']],
  ['mtl plan --search -- --preset llama3-4', ['llama3-405b']],
  ['mtl schedule --pipeline-schedule zb-', ['zb-h1', 'zb-h2', 'zb-v']],
  ['mtl runs remove cor', ['corpus']],
  ['mtl completion ', ['bash', 'fish', 'zsh']],
  ['gpt-train --device cu', ['cuda']],
  // behind the value of a flag nothing of its kind is offered
  ['mtl convert --dtype float32 --sa', ['--save', '--save-hf', '--save-lora']],
];

const has = (shell: string): boolean => spawnSync(shell, ['-c', 'exit 0']).status === 0;

const writeBash = (words: readonly string[]): string => `
  COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}) COMP_CWORD=${words.length - 1}
  _mtl
  printf '%s\\n' "\${COMPREPLY[@]}"`;

/** The function as it is, in a zsh whose builtins of completion print what they get. */
const writeZsh = (words: readonly string[]): string => `
  compdef() { }
  compadd() { shift; for word in "$@"; do if [[ $word == "$wanted"* ]]; then print -r -- $word; fi; done }
  compset() { }
  _files() { setopt local_options null_glob; print -rl -- "$wanted"*(N) }
  words=(${words.map((word) => `'${word}'`).join(' ')}) CURRENT=${words.length} wanted='${words.at(-1)}'
  _mtl`;

/** For each shell: how to start it, how it reads its script, and how it lists the completions of a line. */
const shells = {
  bash: { flags: ['-c'], source: 'source mtl.bash', ask: (line: string) => writeBash(line.split(' ')) },
  zsh: {
    flags: ['-f', '-c'],
    source: 'compdef() { }; source ./mtl.zsh',
    ask: (line: string) => writeZsh(line.split(' ')),
  },
  fish: {
    flags: ['--no-config', '-c'],
    source: 'source mtl.fish',
    ask: (line: string) => `complete -C '${line}'`,
  },
} as const;

/** Returns the words that a shell offers for each line, all in one process. */
function offeredBy(shell: keyof typeof shells, lines: readonly string[]): string[][] {
  const { flags, source, ask } = shells[shell];
  const script = [source, ...lines.map((line) => `${ask(line)}\necho '=='`)].join('\n');
  const output = execFileSync(shell, [...flags, script], { cwd: directory.path, encoding: 'utf8' });
  return output.split('==\n').map((text) => {
    const words = text.split('\n').map((word) => word.split('\t')[0]!.replace(/\/$/, ''));
    return [...new Set(words)].filter((word) => word !== '').sort();
  });
}

for (const shell of ['bash', 'zsh', 'fish'] as const) {
  describe.skipIf(!has(shell))(`mtl completion ${shell} (needs ${shell})`, () => {
    let all: string[][];
    beforeAll(() => {
      all = offeredBy(
        shell,
        cases.map(([line]) => line),
      );
    });

    it.each(cases.map(([line, offered], index) => [line, offered, index] as const))(
      'completes %j',
      (_, offered, index) => {
        expect(all[index]).toEqual(offered);
      },
    );

    it('is a script that the shell can read', () => {
      const check = spawnSync(shell, ['-n', `mtl.${shell}`], { cwd: directory.path, encoding: 'utf8' });
      expect(check).toMatchObject({ status: 0, stderr: '' });
    });
  });
}

describe('mtl completion', () => {
  it('knows every command and every flag that help shows', async () => {
    const { stdout } = await runMtlHere('completion', 'bash');
    const visit = (command: ReturnType<typeof createProgram>, path: readonly string[]): void => {
      for (const each of command.commands) visit(each as never, [...path, each.name()]);
      const row = stdout.split('\n').find((line) => line.startsWith(`    '${path.join(' ')}') subcommands=`));
      for (const { name } of command.commands.map((each) => ({ name: each.name() })))
        expect(row).toContain(name);
      for (const option of command.options.filter(({ hidden }) => !hidden))
        expect(row).toContain(option.long);
    };
    visit(createProgram(), []);
  });

  it.skipIf(!has('bash'))('completes a value behind =', () => {
    const words = ['mtl', 'calibrate', '--device', '=', 'cu'];
    const output = execFileSync('bash', ['-c', `source mtl.bash\n${writeBash(words)}`], {
      cwd: directory.path,
      encoding: 'utf8',
    });
    expect(output).toBe('cuda\n');
  });

  it('refuses a shell that it has no script for', async () => {
    const { status, stderr } = await runMtlHere('completion', 'tcsh');
    expect(status).toBe(2);
    expect(stderr).toMatch(/error\[MTL_FLAG_VALUE\].*tcsh.*bash, zsh, fish\n {2}remedy: .*echo \$SHELL/);
    expect((await runMtlHere('completion')).stderr).toContain('expected mtl completion bash|zsh|fish');
  });
});
