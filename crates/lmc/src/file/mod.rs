//! Files: the model file ([`record`]), and the container that it shares with checkpoints ([`tensor_file`]).

pub(crate) mod record;
pub(crate) mod tensor_file;
