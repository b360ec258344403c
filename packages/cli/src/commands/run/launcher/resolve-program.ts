import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, delimiter, extname, join, resolve } from 'node:path';
import { isTypeScript, typescriptLoader } from '@mtl/comm/launcher';
import { ConfigurationError } from '@mtl/errors';
import { trainingScript } from '../../../training-script.js';

interface PackageFile {
  readonly name?: string;
  readonly bin?: string | Readonly<Record<string, string>>;
  readonly main?: string;
}

const notFound = 'MTL_PROGRAM';

/**
 * Finds the script of the program on a command line. The program is a script; or a directory with a
 * package.json (its only `bin`, or the `bin` with the package's name, else its `main`); or a JavaScript
 * command on the PATH, such as gpt-train. `gpt` and `bert` name the training programs of this package, and
 * `mtl` names this command, regardless of where they are installed.
 *
 * @throws ConfigurationError MTL_PROGRAM
 */
export function resolveProgram(program: string): string {
  const path = resolve(program);
  if (/\.py$/i.test(program)) throw isPython(program);
  if (!existsSync(path)) {
    if (program === 'mtl') return realpathSync(process.argv[1]!);
    const command = trainingScript(program) ?? commandOnPath(program);
    if (command !== undefined) return command;
    throw new ConfigurationError(notFound, `program ${program} not found`, {
      expected:
        'a .js, .mjs, .ts or .mts file, a directory with a package.json, a JavaScript command on the PATH, gpt, bert or mtl',
      ...chooseRemedy(program),
    });
  }
  const script = statSync(path).isDirectory() ? scriptOfPackage(path, program) : path;
  if (isTypeScript(script)) listLoaders(script);
  else if (!['', '.js', '.mjs', '.cjs'].includes(extname(script))) {
    throw new ConfigurationError(notFound, `${program} is a file that ranks cannot be started from`, {
      expected: 'a .js, .mjs, .ts or .mts file, or a directory with a package.json',
    });
  }
  return script;
}

/**
 * Returns the modules that Node.js must import before the script: tsx for a script in TypeScript. Scripts in
 * JavaScript need no module. TypeScript needs no module if tsx is not installed and Node.js strips types
 * itself.
 *
 * @throws ConfigurationError MTL_PROGRAM if neither tsx nor Node.js can run TypeScript
 */
export function listLoaders(script: string): string[] {
  if (!isTypeScript(script)) return [];
  const loader = typescriptLoader(script);
  if (loader !== undefined) return [loader];
  const { typescript = false } = process.features as { readonly typescript?: string | false };
  if (typescript !== false) return [];
  throw new ConfigurationError(
    notFound,
    `${script} is TypeScript, which Node.js ${process.versions.node} does not run`,
    { remedy: 'npm install --save-dev tsx, or use Node.js 22.18 or newer' },
  );
}

/**
 * Returns a remedy for a training program that is not on the PATH: a different command that starts the
 * program.
 */
function chooseRemedy(program: string): { readonly remedy?: string } {
  const model = /^(gpt|bert)-train$/.exec(program)?.[1];
  if (model === undefined) return {};
  return {
    remedy: `name it ${model}, which is the same program wherever mtl is installed: mtl run --nproc-per-node N ${model} -- FLAGS`,
  };
}

/** The commands of this package that correspond to Megatron-LM's scripts. */
const namesOfScripts: readonly (readonly [script: RegExp, words: string])[] = [
  [/^pretrain_(gpt|llama|mistral|qwen)/, 'mtl run --nproc-per-node N gpt -- FLAGS'],
  [/^pretrain_bert/, 'mtl run --nproc-per-node N bert -- FLAGS'],
  // Megatron-LM's scripts for tasks, and its tasks/main.py
  [
    /^(main|run_)?(glue|race|squad|mnli|qqp)|^main\.py/,
    'mtl run --nproc-per-node N mtl -- finetune --task NAME FLAGS',
  ],
  [
    /sft|finetune|fine_tune/,
    'mtl run --nproc-per-node N mtl -- sft FLAGS, or finetune --task NAME FLAGS for a task of a BERT',
  ],
  [/^(run_)?text_generation|generate/, 'mtl generate --load DIR'],
  [/^preprocess_data/, 'mtl data prepare'],
  [/^merge_datasets/, 'mtl data merge'],
  [/^convert|^checkpoint_util/, 'mtl convert'],
];

function isPython(program: string): ConfigurationError {
  const name = basename(program).toLowerCase();
  const words = namesOfScripts.find(([script]) => script.test(name))?.[1];
  return new ConfigurationError(notFound, `${program} is a program in Python, which Node.js does not run`, {
    expected: 'gpt or bert (which train one), mtl, or a program in JavaScript or TypeScript',
    remedy:
      words === undefined
        ? "start it with Python, or name the program of this package in its place: gpt takes the flags of Megatron-LM's pretrain_gpt.py"
        : `it is called here: ${words}`,
  });
}

/** Finds the script of a command that npm linked into a directory of the PATH. */
function commandOnPath(name: string): string | undefined {
  if (name.includes('/')) return undefined;
  const found = (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
  if (found === undefined) return undefined;
  const script = realpathSync(found);
  return /\.[cm]?js$/.test(script) ? script : undefined;
}

function scriptOfPackage(directory: string, program: string): string {
  const file = join(directory, 'package.json');
  if (!existsSync(file)) {
    throw new ConfigurationError(notFound, `${program} is a directory without a package.json`, {
      expected: 'a .js, .mjs, .ts or .mts file, or a directory with a package.json',
    });
  }
  const { name, bin, main } = readPackageFile(file);
  const script = findCommand(bin, name) ?? main;
  if (script === undefined) {
    throw new ConfigurationError(notFound, `the package.json of ${program} names no program`, {
      expected: '"bin" with one command, or one of the name of the package, or "main"',
    });
  }
  const path = join(directory, script);
  if (existsSync(path)) return path;
  throw new ConfigurationError(notFound, `${program} names ${script}, which is not there`, {
    remedy: 'build it first: npm run build',
  });
}

function readPackageFile(file: string): PackageFile {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as PackageFile;
  } catch (error) {
    throw new ConfigurationError(notFound, `${file} cannot be read: ${(error as Error).message}`, {
      expected: 'JSON that names a program as "bin" or "main"',
      cause: error,
    });
  }
}

function findCommand(bin: PackageFile['bin'], name: string | undefined): string | undefined {
  if (bin === undefined || typeof bin === 'string') return bin;
  const commands = Object.values(bin);
  return commands.length === 1 ? commands[0] : bin[name?.split('/').at(-1) ?? ''];
}
