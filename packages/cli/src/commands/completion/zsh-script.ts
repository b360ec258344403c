import type { CompletedCommand } from './completed-command.js';
import { readWords, shellTables } from './shell-tables.js';

/**
 * The script that completes `mtl`, `gpt-train` and `bert-train` in zsh: sourced, or as `_mtl` on the `fpath`.
 */
export function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef mtl gpt-train bert-train
# Completes mtl, gpt-train and bert-train in zsh: source <(mtl completion zsh), after compinit
${shellTables(commands)}_mtl_words() {
${readWords}}
_mtl() {
  local program="\${words[1]}" current="\${words[CURRENT]}" reply_words reply_files
  local -a before=("\${(@)words[2,CURRENT-1]}")
  if [[ $current == --*=* ]]; then
    before+=("\${current%%=*}")
    compset -P '*='
    current="\${current#*=}"
  fi
  _mtl_words
  local -a candidates=(\${=reply_words})
  (( \${#candidates} )) && compadd -- $candidates
  if [[ $reply_files == 1 ]]; then _files; fi
  return 0
}
if [[ \${funcstack[1]} == _mtl ]]; then
  _mtl "$@"
else
  compdef _mtl mtl gpt-train bert-train
fi
`;
}
