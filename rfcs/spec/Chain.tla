------------------------------- MODULE Chain -------------------------------
(* Decisions of a table with a primary key: the links of the chain, the seals that turn them into snapshots, and the
   numbers that seals free (RFC 22). Each action is one request to the storage. A process may stop between two actions
   for as long as it likes, or for ever.

   Drivers "a1" and "a2" commit epochs of writer "a" (one has replaced the other), "b1" those of writer "b". Each driver
   has rows of its own for an epoch, so `by` tells two decisions about one epoch apart (the digest of the code). *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Drivers,  \* processes that commit, a subset of {"a1", "a2", "b1"}
          Sealers,  \* processes that seal
          Last,     \* the last epoch of each writer; the first is 1
          Numbers,  \* the greatest number of a link
          Bug       \* the name of a planted bug, or "none"

Writer(d) == IF d = "b1" THEN "b" ELSE "a"

VARIABLES links,    \* the files of the chain: a set of [n, w, e, by]
          snapshots,\* the decisions in the snapshots, in their order: a sequence of [w, e, by]
          chain,    \* the number of the last sealed link, `lakelog.chain` of the newest snapshot
          version,  \* the number of the newest snapshot
          driver,   \* driver -> [pc, done: the last epoch in its checkpoint, epoch, tip, n, seen]
          sealer,   \* sealer -> [pc, version, chain, links]
          acked,    \* the decisions that a driver has acknowledged
          before    \* pairs <<x, y>>: x was acknowledged before the driver that decided y began it
vars == <<links, snapshots, chain, version, driver, sealer, acked, before>>

None == [w |-> "", e |-> 0, by |-> ""]
Decision(x) == [w |-> x.w, e |-> x.e, by |-> x.by]
Own(d) == [w |-> Writer(d), e |-> driver[d].epoch, by |-> d]
Max(S) == CHOOSE m \in S : \A k \in S : k <= m

SealedEpoch(w, table) == Max({0} \cup {table[i].e : i \in {i \in 1..Len(table) : table[i].w = w}})
SealedDecision(w, e, table) ==
    LET at == {i \in 1..Len(table) : table[i].w = w /\ table[i].e = e}
    IN IF at = {} THEN None ELSE table[CHOOSE i \in at : TRUE]

RECURSIVE Apply(_, _, _)
(* The table after the links of a set, in their order. A link decides nothing if its epoch is already decided. *)
Apply(table, rest, from) ==
    LET here == {x \in rest : x.n = from}
    IN IF ~\E x \in rest : x.n >= from THEN table
       ELSE IF here = {} THEN Apply(table, rest, from + 1)
       ELSE LET x == CHOOSE x \in here : TRUE
            IN Apply(IF x.e <= SealedEpoch(x.w, table) THEN table ELSE Append(table, Decision(x)), rest, from + 1)

(* What a batch read returns: the snapshot, then the links above the last sealed one. *)
Table == Apply(snapshots, {x \in links : x.n > chain}, chain + 1)

Init ==
    /\ links = {} /\ snapshots = <<>> /\ chain = 0 /\ version = 0
    /\ driver = [d \in Drivers |-> [pc |-> "idle", done |-> 0, epoch |-> 0, tip |-> 0, n |-> 0, seen |-> {}]]
    /\ sealer = [s \in Sealers |-> [pc |-> "idle", version |-> 0, chain |-> 0, links |-> {}, table |-> <<>>]]
    /\ acked = {} /\ before = {}

Set(d, change) == driver' = [driver EXCEPT ![d] = change]
Ack(d) ==
    /\ acked' = acked \cup {Own(d)}
    /\ Set(d, [pc |-> "idle", done |-> driver[d].epoch, epoch |-> 0, tip |-> 0, n |-> 0, seen |-> {}])
Fenced(d) == Set(d, [driver[d] EXCEPT !.pc = "fenced"]) /\ UNCHANGED acked

(* A driver begins its next epoch, or one again that it has an older checkpoint of. It reads the newest snapshot. *)
Begin(d) ==
    /\ driver[d].pc = "idle"
    /\ \E e \in 1..Last :
        /\ e <= driver[d].done + 1
        /\ LET sealed == SealedDecision(Writer(d), e, snapshots)
               tip == IF Bug = "tip without reading" THEN Max({chain} \cup {x.n : x \in links}) ELSE chain
               start == [driver[d] EXCEPT !.epoch = e, !.tip = tip, !.seen = acked]
           IN IF e > SealedEpoch(Writer(d), snapshots)
              THEN Set(d, [start EXCEPT !.pc = "create"])
              ELSE IF sealed.by = d \/ Bug = "any decision is mine"
              THEN Set(d, [start EXCEPT !.pc = "repeated"])
              ELSE Set(d, [start EXCEPT !.pc = "fenced"])
    /\ UNCHANGED <<links, snapshots, chain, version, sealer, acked, before>>

Repeated(d) == driver[d].pc = "repeated" /\ Ack(d) /\ UNCHANGED <<links, snapshots, chain, version, sealer, before>>

(* Creates link tip + 1 if it is absent. *)
Create(d) ==
    LET n == driver[d].tip + 1
    IN /\ driver[d].pc = "create" /\ n <= Numbers /\ ~\E x \in links : x.n = n
       /\ links' = links \cup {[n |-> n, w |-> Writer(d), e |-> driver[d].epoch, by |-> d]}
       /\ before' = (IF \E i \in 1..Len(Table) : Table[i] = Own(d) THEN before
                     ELSE before \cup {<<x, Own(d)>> : x \in driver[d].seen})
       /\ IF Bug = "no check" THEN Ack(d)
          ELSE (Set(d, [driver[d] EXCEPT !.pc = "check", !.n = n]) /\ UNCHANGED acked)
       /\ UNCHANGED <<snapshots, chain, version, sealer>>

(* Reads the link that is there: the decision about its own epoch, or the new tip. *)
Meet(d) ==
    /\ driver[d].pc = "create"
    /\ \E x \in links :
        /\ x.n = driver[d].tip + 1
        /\ IF x.w # Writer(d) \/ x.e # driver[d].epoch THEN Set(d, [driver[d] EXCEPT !.tip = x.n])
           ELSE IF x.by = d THEN Set(d, [driver[d] EXCEPT !.pc = "check", !.n = x.n])
           ELSE Set(d, [driver[d] EXCEPT !.pc = "fenced"])
    /\ UNCHANGED <<links, snapshots, chain, version, sealer, acked, before>>

(* Reads the newest snapshot after the create. The link is void if its epoch or its number is already sealed. *)
Check(d) ==
    LET sealed == SealedDecision(Writer(d), driver[d].epoch, snapshots)
        n == driver[d].n
        forget == {x \in links : x.n # n \/ x.by # d}
    IN /\ driver[d].pc = "check"
       /\ IF sealed = Own(d) THEN (Ack(d) /\ links' = links)
          ELSE IF driver[d].epoch <= SealedEpoch(Writer(d), snapshots)
          THEN (Fenced(d) /\ links' = (IF n <= chain \/ Bug = "delete a void link" THEN forget ELSE links))
          ELSE IF n <= chain /\ Bug # "keep a used number"
          THEN (links' = forget /\ Set(d, [driver[d] EXCEPT !.pc = "create", !.tip = chain]) /\ UNCHANGED acked)
          ELSE (Ack(d) /\ links' = links)
       /\ UNCHANGED <<snapshots, chain, version, sealer, before>>

(* A driver dies, and starts again with its checkpoint. *)
Restart(d) ==
    /\ driver[d].pc # "idle"
    /\ Set(d, [pc |-> "idle", done |-> driver[d].done, epoch |-> 0, tip |-> 0, n |-> 0, seen |-> {}])
    /\ UNCHANGED <<links, snapshots, chain, version, sealer, acked, before>>

(* Reads the newest snapshot, then the links above its last one. *)
SealRead(s) ==
    /\ sealer[s].pc = "idle"
    /\ \E missed \in IF Bug = "a listing with a gap" THEN {{}} \cup {{x} : x \in links} ELSE {{}} :
        LET view == {x \in links : x.n > chain} \ missed
        IN /\ view # {}
           /\ sealer' = [sealer EXCEPT ![s] = [pc |-> "commit", version |-> version, chain |-> chain, links |-> view,
                                               table |-> snapshots]]
    /\ UNCHANGED <<links, snapshots, chain, version, driver, acked, before>>

(* Creates the next snapshot, if nobody else has; otherwise begins again. *)
SealCommit(s) ==
    /\ sealer[s].pc = "commit"
    /\ IF sealer[s].version = version
       THEN /\ snapshots' = Apply(sealer[s].table, sealer[s].links, sealer[s].chain + 1)
            /\ chain' = Max({x.n : x \in sealer[s].links})
            /\ version' = version + 1
       ELSE IF Bug = "seal the same again"
       THEN /\ snapshots' = snapshots \o Apply(<<>>, sealer[s].links, sealer[s].chain + 1)
            /\ chain' = Max({chain} \cup {x.n : x \in sealer[s].links})
            /\ version' = version + 1
       ELSE UNCHANGED <<snapshots, chain, version>>
    /\ sealer' = [sealer EXCEPT ![s] = [@ EXCEPT !.pc = "idle", !.links = {}, !.table = <<>>, !.version = 0, !.chain = 0]]
    /\ UNCHANGED <<links, driver, acked, before>>

(* Any process deletes the link of a sealed epoch, once its commit markers are in the log. *)
Forget ==
    /\ \E x \in links :
        /\ x.n <= chain \/ Bug = "forget what is not sealed"
        /\ links' = links \ {x}
    /\ UNCHANGED <<snapshots, chain, version, driver, sealer, acked, before>>

Next ==
    \/ \E d \in Drivers : Begin(d) \/ Repeated(d) \/ Create(d) \/ Meet(d) \/ Check(d) \/ Restart(d)
    \/ \E s \in Sealers : SealRead(s) \/ SealCommit(s)
    \/ Forget

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Every acknowledged decision is in the table. *)
InvDurable == acked = {} \/ LET table == Table IN \A x \in acked : \E i \in 1..Len(table) : table[i] = x
(* An epoch has one decision. *)
InvOneDecision == \A x, y \in acked : (x.w = y.w /\ x.e = y.e) => x = y
(* The snapshots have each epoch once, a writer's epochs in ascending order. *)
InvOnce == \A i, j \in 1..Len(snapshots) : (i < j /\ snapshots[i].w = snapshots[j].w) => snapshots[i].e < snapshots[j].e
(* A decision that was acknowledged before another began is before it in the table. *)
InvOrder == before = {} \/ LET table == Table IN
    \A p \in before : \A i, j \in 1..Len(table) : (table[i] = p[1] /\ table[j] = p[2]) => i < j
(* Links above the last sealed one have no gap. *)
InvNoGap == \A x \in links : \A m \in (chain + 1)..x.n : \E y \in links : y.n = m
=============================================================================
