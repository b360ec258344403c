import { ConfigurationError } from '@mtl/errors';
import { parseRepository } from '@mtl/hub';
import { modelCard, preparePush } from '@mtl/hub/push';
import { formatBytes } from '@mtl/trainer';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { summaries } from '../summaries.js';
import { describeArchitecture, describeTraining, readBaseModel, runOfFolder } from './card-facts.js';
import { confirm } from './confirm.js';

interface PushFlags {
  readonly run?: string;
  readonly license?: string;
  readonly baseModel?: string;
  readonly public?: true;
  readonly yes?: true;
}

const notes = `
The folder is what --save-hf, --save-lora or mtl convert wrote: a transformers directory, adapters of PEFT, or GGUF files.
Only files of the model are uploaded, large ones by Git LFS. The model card tells data, configuration, loss curve and
evaluations of the run, and nothing of this machine; a README.md in the folder is uploaded in its place.
HF_TOKEN, or the token of hf auth login, needs the permission to write. It was never tried against the real Hub.

Examples:
  mtl push shakespeare-hf me/shakespeare --run shakespeare --license mit
  mtl push adapters me/my-adapters --base-model HuggingFaceTB/SmolLM2-135M --yes`;

/**
 * Creates the command `mtl push`, which uploads a model with a model card after the user has confirmed it.
 */
export function pushCommand(): Command {
  return newCommand('push', summaries.push)
    .argument('<dir>', 'The folder of the model.')
    .argument('<name>', 'The repository: your user name or an organization, a slash, and a name.')
    .option(
      '--run <run>',
      'The run that made the model, a folder or a name in runs. [the run that the folder is in]',
    )
    .option('--license <id>', 'The license, as the Hub calls it: apache-2.0, mit. [none]')
    .option('--base-model <name>', 'The org/name that training began with. [as the run records it]')
    .option('--public', 'Lets everyone read it. [private]')
    .option('--yes', 'Uploads without a question, as it is needed where there is no terminal.')
    .addHelpText('after', notes)
    .action(push);
}

const say = (text: string): void => void process.stderr.write(`${text}\n`);

async function push(directory: string, name: string, flags: PushFlags): Promise<void> {
  const { license, yes } = flags;
  checkBaseModel(flags);
  const run = runOfFolder(directory, flags.run);
  const prepared = await preparePush({ directory, name, isPublic: flags.public === true, onMessage: say });
  const { folder, url, existing } = prepared;
  const found = run === undefined ? undefined : describeTraining(run);
  const readme =
    folder.readme ??
    modelCard({
      name,
      format: folder.format,
      files: folder.files,
      license,
      baseModel: flags.baseModel ?? readBaseModel(folder) ?? found?.baseModel,
      architecture: describeArchitecture(folder),
      training: found?.training,
    });
  say(readme);
  const bytes = folder.files.reduce((sum, file) => sum + file.bytes, 0);
  for (const file of folder.files) say(`  ${file.file}  ${formatBytes(file.bytes)}`);
  if (folder.readme !== undefined) say('  README.md  the text above, as it is in the folder');
  if (folder.left.length > 0) say(`  not uploaded: ${folder.left.join(' ')}`);
  const visibility = existing ?? (flags.public === true ? 'public' : 'private');
  const target = `${url} (${existing === undefined ? 'new, ' : ''}${visibility})`;
  if (yes !== true) await confirm(`upload ${formatBytes(bytes)} and this model card to ${target}?`);
  say(`uploading to ${target}`);
  process.stdout.write(`${await prepared.run(readme)}\n`);
}

function checkBaseModel({ baseModel }: PushFlags): void {
  if (baseModel === undefined || parseRepository(baseModel) !== undefined) return;
  throw new ConfigurationError('MTL_FLAG_VALUE', `--base-model ${baseModel}`, {
    expected: 'org/name of a model on the Hub',
  });
}
