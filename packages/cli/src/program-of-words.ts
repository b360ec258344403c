import { Argument, type Command } from 'commander';
import { newCommand } from './command-line/new-command.js';
import { summaries } from './commands/summaries.js';
import { newProgram } from './new-program.js';

type Name = keyof typeof summaries;

/**
 * The modules of commands. A module is imported only when its command is used, because importing all modules
 * takes half a second.
 */
const commands: Readonly<Record<Name, () => Promise<Command>>> = {
  train: async () => (await import('./commands/train.js')).trainCommand(),
  run: async () => (await import('./commands/run/run.js')).runCommand(),
  data: async () => (await import('./commands/data/data.js')).dataCommand(),
  eval: async () => (await import('./commands/eval/eval.js')).evalCommand(),
  finetune: async () => (await import('./commands/finetune.js')).finetuneCommand(),
  sft: async () => (await import('./commands/sft.js')).sftCommand(),
  chat: async () => (await import('./commands/chat.js')).chatCommand(),
  generate: async () => (await import('./commands/generate.js')).generateCommand(),
  convert: async () => (await import('./commands/convert.js')).convertCommand(),
  push: async () => (await import('./commands/push/push.js')).pushCommand(),
  checkpoint: async () => (await import('./commands/checkpoint.js')).checkpointCommand(),
  runs: async () => (await import('./commands/runs.js')).runsCommand(),
  watch: async () => (await import('./commands/watch.js')).watchCommand(),
  plan: async () => (await import('./commands/plan/plan.js')).planCommand(),
  calibrate: async () => (await import('./commands/calibrate.js')).calibrateCommand(),
  schedule: async () => (await import('./commands/schedule/schedule.js')).scheduleCommand(),
  doctor: async () => (await import('./commands/doctor.js')).doctorCommand(),
  completion: async () => (await import('./commands/completion.js')).completionCommand(),
};

/** The operands in the list of commands. */
const operands: Partial<Readonly<Record<Name, string>>> = {
  run: '<program> [args...]',
  sft: '[flags...]',
  chat: '[dir]',
  generate: '[dir]',
  convert: '[path]',
  push: '<dir> <name>',
  runs: '[directory]',
  watch: '[runs]',
  plan: '[flags...]',
  completion: '<shell>',
};

/**
 * Returns the command `mtl` like `createProgram`, but builds completely only the subcommands that `words` may
 * name. The other subcommands have only name, summary and operands, for the list of commands.
 */
export async function programOfWords(words: readonly string[]): Promise<Command> {
  const program = newProgram();
  // the script of `completion` needs all commands
  const isAll = words.includes('completion');
  for (const [name, load] of Object.entries(commands) as [Name, () => Promise<Command>][]) {
    program.addCommand(isAll || words.includes(name) ? await load() : shownCommand(name));
  }
  return program;
}

function shownCommand(name: Name): Command {
  const command = newCommand(name, summaries[name]);
  const words = operands[name]?.split(' ') ?? [];
  for (const word of words) command.addArgument(new Argument(word));
  return command;
}
