export {
  type Fault,
  HubServer,
  type ServedRepository,
  type ServedRequest,
  servedToken,
} from './hub-server.js';
