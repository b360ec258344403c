import { Argument, type Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { bashScript } from './bash-script.js';
import { type CompletedCommand, completedCommands } from './completed-command.js';
import { fishScript } from './fish-script.js';
import { zshScript } from './zsh-script.js';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } satisfies Record<
  string,
  (commands: readonly CompletedCommand[]) => string
>;

const notes = `
The script completes commands, flags, names that flags take as values, and files, for mtl, gpt-train and bert-train.

  bash  source <(mtl completion bash)   (in ~/.bashrc)
  zsh   source <(mtl completion zsh)    (in ~/.zshrc, after compinit)
  fish  mtl completion fish > ~/.config/fish/completions/mtl.fish`;

/** `mtl completion`: a script that completes command lines of `mtl` in a shell, made from its commands. */
export function completionCommand(): Command {
  const command = newCommand('completion', 'Prints a script that completes command lines in a shell.');
  return command
    .addArgument(new Argument('<shell>', 'The shell.').choices(Object.keys(scripts)))
    .addHelpText('after', notes)
    .action((shell: keyof typeof scripts) => {
      process.stdout.write(scripts[shell](completedCommands(command.parent!)));
    });
}
