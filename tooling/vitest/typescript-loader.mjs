// Lets a process or worker thread import TypeScript sources: --import of a process, or the preload of a rank's thread.
import { register } from 'tsx/esm/api';

register();
